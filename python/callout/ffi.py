# SPDX-License-Identifier: Apache-2.0
"""Programs call XLA FFI handlers of any library by the names of targets. This module can take the place of `jax.ffi`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
from jax.ffi import build_ffi_lowering_function as build_ffi_lowering_function
from jax.ffi import ffi_lowering as ffi_lowering
from jax.ffi import include_dir as include_dir
from jax.ffi import pycapsule as pycapsule
from jax.ffi import register_ffi_type as register_ffi_type

from . import _jax_compat
from ._base.arguments import check_operand, read
from ._base.public_modules import publish
from ._callbacks import foreign_call
from ._callbacks.derivatives import call_with_rules
from ._callbacks.foreign_call import ForeignCall
from ._targets import random_keys
from ._targets.handler_signature import Signature
from ._targets.partitioning import foreign_partitioning

__all__ = [
    "abstract_token",
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]
publish(__name__)

abstract_token: Any = _jax_compat.abstract_token()
"""The type of a token among arguments and results."""


def register_ffi_target(
    name: str,
    fn: Any,
    platform: str = "cpu",
    api_version: int = 1,
    *,
    signature: str | None = None,
    **kwargs: Any,
) -> None:
    """Registers an XLA FFI handler as `jax.ffi.register_ffi_target` does, with an optional signature.

    Args:
        name: the target's name in programs.
        fn: a PyCapsule over a handler (`pycapsule`), or a dict of stage names ("instantiate", "prepare", "initialize",
            "execute", and XLA's others, such as "state_type_id") to capsules.
        platform: "cpu", "cuda", ...
        api_version: 1 for typed FFI, 0 for the older custom calls.
        signature: the types of arguments, attributes and results, checked whenever `ffi_call` is traced. Text such as
            `(x: f32[n, m], y: *[...,m], *, eps: f32, name: str, axes: s64[], limit: f32?) -> (z: f32[n])`: arguments and
            results with dtype (`*`: any) and dimensions (numbers, names, `...` in front; none at all: any shape), attributes
            with their NumPy types (`[]`: an array, `?`: may be left out), or str, bool, dict, any.
        **kwargs: passed on to XLA.

    Raises:
        ValueError: `signature` is no signature.
        jax.errors.JaxRuntimeError: the runtime refuses the function.

    Example:
        >>> import pathlib, subprocess, ctypes
        >>> _ = pathlib.Path("double.cc").write_text('''
        ... namespace ffi = xla::ffi;
        ... XLA_FFI_DEFINE_HANDLER_SYMBOL(
        ...     Double, [](ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
        ...       for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
        ...       return ffi::Error::Success();
        ...     },
        ...     ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
        ... ''')
        >>> flags = ["-std=c++17", "-w", "-shared", "-fPIC", "-include", "xla/ffi/api/ffi.h"]
        >>> flags += ["-I", callout.ffi.include_dir()]
        >>> _ = subprocess.run(["c++", *flags, "double.cc", "-o", "libdouble.so"], check=True)
        >>> handler = callout.ffi.pycapsule(ctypes.CDLL("./libdouble.so").Double)
        >>> callout.ffi.register_ffi_target("docs_double", handler, signature="(x: f32[n]) -> (y: f32[n])")
        >>> callout.ffi.ffi_call("docs_double", jax.ShapeDtypeStruct((3,), jnp.float32))(jnp.ones(3))
        Array([2., 2., 2.], dtype=float32)
    """
    parsed = None if signature is None else Signature(signature)
    jax.ffi.register_ffi_target(name, fn, platform=platform, api_version=api_version, **kwargs)
    foreign_call.registered.add(name)
    foreign_partitioning.name_for(name)  # programs that another process exported name it
    if parsed is None:
        foreign_call.signatures.pop(name, None)
    else:
        foreign_call.signatures[name] = parsed


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Raises ValueError, like `jax.ffi.register_ffi_type_id`: use `register_ffi_type`.

    Args:
        name: as in JAX.
        obj: as in JAX.
        platform: as in JAX.

    Raises:
        ValueError: always.

    Example:
        >>> callout.ffi.register_ffi_type_id("state", None)
        Traceback (most recent call last):
        ValueError: ...
    """
    del obj, platform
    raise ValueError(
        f"callout.ffi.register_ffi_type_id: no jaxlib that callout runs with takes the id of type '{name}' alone; "
        "register_ffi_type takes a dict of 'type_id' and 'type_info'"
    )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Lets XLA shard calls of the target over their leading dimensions.

    Args:
        name: of a target that was registered.

    Example:
        >>> callout.ffi.register_ffi_target_as_batch_partitionable("docs_batched")
    """
    jax.ffi.register_ffi_target_as_batch_partitionable(name)
    foreign_call.batch_partitionable.add(name)


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any = None,
    *args: Any,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    vectorized: bool | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
    jvp: Callable[..., Any] | None = None,
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
    transpose: Callable[..., Any] | None = None,
    sharding: Literal["gather", "local", "error"] | None = None,
    sharding_rule: str | None = None,
    **attributes: Any,
) -> Any:
    """Returns a function that calls an XLA FFI target. The parameters include those of `jax.ffi.ffi_call`.

    The function takes arrays, and pytrees of them, by position, and attributes by keyword, whose NumPy types are those that
    the handler gets: a Python int is an s64, a float an f64, a str a string; arrays and (nested) dicts work as well.
    The handler gets PRNG keys as their integers, in dimensions behind those of the keys.

    Args:
        target_name: the name of a target that Callout, JAX or a library has registered. jaxlib's LAPACK targets
            ("lapack_spotrf_ffi") are initialized here; with `jax.ffi.ffi_call` only the first use of `jnp.linalg` does
            so.
        result_shape_dtypes: an object with `shape` and `dtype`, or a pytree of them; dtypes of keys and
            `abstract_token` are allowed, too. Or a function `f(*shapes, **attributes)` that returns such a pytree for
            the arguments' shapes. None: the results of the target's signature, if it has the dtype and the dimensions
            of each.
        *args: deprecated: the arrays, with the attributes as further keywords. The call is then made at once, and its
            results are returned.
        has_side_effect: keep the call even if its results are unused. In a jit over several devices only the first
            calls.
        vmap_method: as in `jax.pure_callback`.
        vectorized: deprecated: True is vmap_method="legacy_vectorized", False "sequential".
        input_layouts: one layout for each array of the arguments: None for row-major, axes from major to minor
            (negative ones count from the end), or an object with `major_to_minor`.
        output_layouts: one layout for each result, likewise.
        input_output_aliases: {argument: result}, both flat indices: the result is written to the argument's memory.
        custom_call_api_version: 4 is typed FFI.
        legacy_backend_config: the string for targets of an older API.
        jvp: `jvp(primals, tangents, **attributes)` returns (results, their tangents).
        vjp: (`forward(*args, **attributes)` returns (results, residuals), `backward(residuals, cotangents)` returns one
            cotangent for each argument).
        transpose: `transpose(cotangents, **attributes)` returns one cotangent for each argument; a promise that the
            function is linear.
        sharding: what happens in a jit over several devices. "gather": every device computes with whole arrays; "local":
            each computes with its shards, and a result is spread like an argument of its shape; "error": refuse. None: XLA's
            own way for targets that were registered elsewhere or are batch-partitionable, else "gather", with a warning when
            shards are collected.
        sharding_rule: for sharding="local": how results are sharded. Text such as "i j, j -> i" gives dimensions that
            are sharded alike the same name. The rule goes to `jax.experimental.custom_partitioning` and has its limits:
            no vmap, no export. A dimension that no result has is gathered.
        **attributes: with `*args` only.

    Returns:
        The function. It returns arrays in the structure of `result_shape_dtypes`; by a signature one array, or a tuple.

    Raises:
        ValueError: layouts or aliases do not fit; the method or sharding is unknown.
        TypeError: (from the returned function) the call does not fit the target's signature, or the signature does not
            determine the results; an argument or an attribute cannot be in a program.

    Example:
        >>> like = jax.ShapeDtypeStruct((2, 2), jnp.float32)
        >>> potrf = callout.ffi.ffi_call("lapack_spotrf_ffi", (like, jax.ShapeDtypeStruct((), jnp.int32)))
        >>> factor, info = jax.jit(lambda a: potrf(a, uplo=np.uint8(ord("L"))))(jnp.array([[4.0, 0.0], [0.0, 9.0]]))
        >>> factor.diagonal(), int(info)
        (Array([2., 3.], dtype=float32), 0)
    """
    where = f"callout.ffi.ffi_call '{target_name}'"
    if vectorized is not None:
        method = "legacy_vectorized" if vectorized else "sequential"
        warnings.warn(
            f"{where}: vectorized= is deprecated; use vmap_method={method!r}", DeprecationWarning, stacklevel=2
        )
        if vmap_method not in (None, method):
            raise ValueError(f"{where}: vectorized={vectorized} and vmap_method={vmap_method!r} contradict each other")
        vmap_method = method
    if target_name not in foreign_call.registered:
        foreign_call.prepare_lapack(target_name)
    made = functools.partial(
        ForeignCall,
        target_name,
        has_side_effect=has_side_effect,
        vmap_method=vmap_method,
        input_layouts=input_layouts,
        aliases=dict(sorted((input_output_aliases or {}).items())),
        api_version=custom_call_api_version,
        backend_config=legacy_backend_config,
        sharding="local" if sharding is None and sharding_rule is not None else sharding,
        rule=sharding_rule,
    )

    def call_for(results: foreign_call.Results) -> ForeignCall:
        return made(
            results=tuple(result.aval for result in results.of_handler),
            wanted=results.wanted,
            output_layouts=[output_layouts] if results.is_single else output_layouts,
        )

    fixed = None
    if foreign_call.results_are_fixed(result_shape_dtypes):
        fixed = foreign_call.read_results(where, result_shape_dtypes)
        call_for(fixed)  # raises errors now, before the function is called
    else:
        made(results=(), wanted=(), output_layouts=None)

    def call(*values: Any, **given: Any) -> Any:
        def bind(*arrays: Any) -> Any:
            arrays = jax.tree.map(read, arrays)
            leaves, tree = jax.tree.flatten((arrays, {}))
            operands = [random_keys.data(check_operand(where, leaf, tree, i)) for i, leaf in enumerate(leaves)]
            results = fixed
            if results is None:
                results = foreign_call.results_for_arguments(where, target_name, result_shape_dtypes, arrays, given)
            return results.rebuilt(call_for(results).bind(operands, given))

        return call_with_rules(bind, values, given, jvp=jvp, vjp=vjp, transpose=transpose, vmap_method=vmap_method)

    if args or attributes:
        warnings.warn(f"{where}: pass the arguments to what ffi_call returns", DeprecationWarning, stacklevel=2)
        return call(*args, **attributes)
    return call
