# SPDX-License-Identifier: Apache-2.0
"""Builds and reads custom calls and host transfers as operations of an MLIR module."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from .target_attributes import encode

OURS = "callout.v"
"""The begin of the names of Callout's targets."""

# The types of channels in StableHLO.
DEVICE_TO_HOST, HOST_TO_DEVICE = 2, 3


def is_token(kind: Any) -> bool:
    """Returns whether a type is the type of tokens."""
    return bool(kind == mlir.token_type())


def rank_of(kind: Any) -> int:
    """Returns the rank of an array's type; 0 for a token's."""
    return 0 if is_token(kind) else int(ir.RankedTensorType(kind).rank)


@functools.cache
def _dtypes() -> dict[str, np.dtype[Any]]:
    """Returns the dtypes of elements by the text of their types."""
    found: dict[str, np.dtype[Any]] = {}
    for scalar in filter(lambda one: isinstance(one, type), [*np.sctypeDict.values(), *vars(ml_dtypes).values()]):
        with contextlib.suppress(TypeError, KeyError):  # no dtype, or not one of JAX's
            dtype = np.dtype(scalar)
            found.setdefault(str(mlir.dtype_to_ir_type(dtype)), dtype)
    return found


def spec_of(kind: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Returns dtype and shape of an array's type."""
    array: Any = ir.RankedTensorType(kind)
    return _dtypes()[str(array.element_type)], tuple(array.shape)


def row_major(rank: int) -> Any:
    """Returns the layout that FFI handlers expect: NumPy's."""
    order = ", ".join(str(axis) for axis in reversed(range(rank)))
    return ir.Attribute.parse(f"dense<[{order}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>")


def alias(result: int | None, operand: int) -> Any:
    """Returns the alias of a result, None for the only one, and an operand."""
    results = [] if result is None else [result]
    return stablehlo.OutputOperandAlias.get(results, operand, [])


def config_of(where: str, target: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a call of Callout's targets, checked and written by `encode`."""
    return {name: mlir.ir_attribute(value) for name, value in encode(where, target, values).items()}


def call_attributes(
    target: str, config: Mapping[str, Any] | None, operands: Sequence[Any], results: Sequence[Any], api_version: int = 4
) -> dict[str, Any]:
    """Returns the attributes of a custom call with side effects. `operands` and `results` are types."""
    return {
        "call_target_name": ir.StringAttr.get(target),
        "has_side_effect": ir.BoolAttr.get(True),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), api_version),
        "backend_config": ir.StringAttr.get("") if config is None else ir.DictAttr.get(dict(config)),
        "operand_layouts": ir.ArrayAttr.get([row_major(rank_of(kind)) for kind in operands]),
        "result_layouts": ir.ArrayAttr.get([row_major(rank_of(kind)) for kind in results]),
    }


def operations(operation: Any) -> Iterator[Any]:
    """Yields all operations inside an operation, outermost first."""
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from operations(inner.operation)


def is_call_of(operation: Any, target: str) -> bool:
    """Returns whether an operation is a custom call of a target whose name begins with `target`."""
    if operation.name != "stablehlo.custom_call":
        return False
    return bool(ir.StringAttr(operation.attributes["call_target_name"]).value.startswith(target))


def own_calls(module: Any) -> Iterator[Any]:
    """Yields the custom calls of Callout's targets in a module."""
    return (operation for operation in operations(module.operation) if is_call_of(operation, OURS))


def config_key(call: Any) -> str:
    """Returns the name of a custom call's dictionary of attributes. JAX uses MHLO's name for compatibility."""
    return "mhlo.backend_config" if "mhlo.backend_config" in call.attributes else "backend_config"


def transfer_attributes(channel: int, channel_type: int) -> dict[str, Any]:
    """Returns the attributes that make a send or receive op a transfer to or from the host."""
    handle = stablehlo.ChannelHandle.get(channel, channel_type)
    return {"channel_handle": handle, "is_host_transfer": ir.BoolAttr.get(True)}


def create_before(name: str, operands: list[Any], attributes: dict[str, Any], types: list[Any], before: Any) -> Any:
    """Inserts a new operation in front of `before`, with its location."""
    operation: Any = ir.Operation
    made = operation.create(
        name, results=types, operands=operands, attributes=attributes, loc=before.location, ip=ir.InsertionPoint(before)
    )
    return made.operation
