# SPDX-License-Identifier: Apache-2.0
"""Makes exported programs that call Callout's targets with operands, results or attributes that no tracing makes."""

import dataclasses
import json
import re

import callout
import jax
import jax.numpy as jnp
import numpy as np
import settings
from core_only import has_core
from jax.extend import mlir as jax_mlir

_DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint32": "ui32", "bool": "i1"}
F32 = jax.ShapeDtypeStruct((), jnp.float32)
ONE, TWO = np.float32(1), np.arange(2, dtype=np.float32)
SECRET = jax.ShapeDtypeStruct((4096,), jnp.float32)
# The core rejects a program when it runs; JAX's callbacks reject it when it is lowered. A core in Python raises
# NotImplementedError for features that it lacks.
REFUSED = (jax.errors.JaxRuntimeError, callout.CallbackError, *(() if has_core() else (NotImplementedError,)))


def _type(aval):
    dims = "".join(f"{extent}x" for extent in aval.shape)
    return f"tensor<{dims}{_DTYPES[aval.dtype.name]}>"


def _attribute(value):
    if isinstance(value, str):
        return _attribute(value.encode())
    if isinstance(value, bytes):
        text = "".join(chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"\\{byte:02X}" for byte in value)
        return f'"{text}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_attribute(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
    return f"{value} : i64"


def program(target, attributes, operands=(), results=()):
    """Makes an exported program of one call with arguments of these shapes, and returns its results and a number.

    The number is a result that always exists, so that the program is not dropped.
    """

    def like_it(*args):
        return *(jnp.zeros(result.shape, result.dtype) for result in results), jnp.float32(0)

    exported = jax.export.export(jax.jit(like_it, keep_unused=True))(*operands)
    given = ", ".join(f"%a{i}: {_type(aval)}" for i, aval in enumerate(operands))
    names = ", ".join(f"%a{i}" for i in range(len(operands)))
    types, outs = ", ".join(map(_type, operands)), ", ".join(map(_type, results))
    bound = f"%r:{len(results)} = " if results else ""
    returned = ", ".join([*(f"%r#{i}" for i in range(len(results))), "%c"])
    returns = ", ".join(map(_type, [*results, F32]))
    text = f"""module @jit_f attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main({given}) -> ({returns}) {{
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    {bound}stablehlo.custom_call @{target}({names}) {{api_version = 4 : i32, backend_config = {_attribute(attributes)},
      has_side_effect = true}} : ({types}) -> ({outs})
    return {returned} : {returns}
  }}
}}"""
    artifact = jax_mlir.serialize_portable_artifact(text, "1.13.0")
    return dataclasses.replace(exported, mlir_module_serialized=artifact)


def run(target, attributes, operands=(), results=()):
    """Runs a program of one call with these arrays, and waits for its records."""
    shapes = [jax.ShapeDtypeStruct(operand.shape, operand.dtype) for operand in operands]
    made = program(target, attributes, shapes, results)
    try:
        return jax.block_until_ready(jax.jit(made.call)(*operands))[:-1]
    finally:
        callout.barrier_wait()


def name_in(f, *args):
    """Returns the generated name of the function that `f` calls, and the executable that keeps the function alive."""
    with settings.fallback("auto"):  # JAX's callbacks have no names
        lowered = jax.jit(f).lower(*args)
    (name,) = set(re.findall(r'callback = "(py:[^"]*)"', lowered.as_text()))
    return name, lowered.compile()
