# SPDX-License-Identifier: Apache-2.0
"""Buffer callbacks work on XLA's own memory: no operand and no result is copied."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from . import _ext
from ._base import options
from ._base.arguments import as_leaves, is_ref
from ._base.public_modules import CallableModule, publish
from ._callbacks.pure_callback import result_avals
from ._primitives.aliases import check_aliases
from ._primitives.batching import check_vmap_method
from ._primitives.buffer import WHERE, BufferTarget, buffer_p
from ._primitives.varying import stated
from ._targets import buffer_functions
from ._targets.function_targets import call_target, function_name, is_flat_call, is_leaf
from ._targets.target import Target, Transforms, interned

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]
publish(__name__, CallableModule)

if TYPE_CHECKING:

    class Buffer:
        """Gives access to memory of XLA's, row-major and dense, during a call. Any later use raises ValueError.

        On a CPU `numpy.asarray(buffer)`, `memoryview(buffer)` and `from_dlpack(buffer)` of NumPy, PyTorch and others give
        views. On CUDA `torch.from_dlpack(buffer)`, `cupy.asarray(buffer)` and `numba.cuda.as_cuda_array(buffer)` do.
        """

        shape: tuple[int, ...]
        dtype: np.dtype[Any]
        ndim: int
        size: int
        nbytes: int
        writeable: bool  # True for results, False for arguments
        __cuda_array_interface__: dict[str, Any]  # version 3; on CUDA

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __dlpack__(
            self,
            *,
            stream: Any = None,
            max_version: tuple[int, int] | None = None,
            dl_device: tuple[int, int] | None = None,
            copy: bool | None = None,
        ) -> Any: ...
        def __dlpack_device__(self) -> tuple[int, int]: ...
        def __len__(self) -> int: ...

    class ExecutionContext:
        """Describes the call to the callback."""

        stage: ExecutionStage
        stream: int  # a CUstream; reading raises JaxRuntimeError on a CPU
        device_ordinal: int  # on a CPU the id of the jax.Device, on CUDA the driver's number
        run_id: int  # the same for all devices of one launch
else:
    Buffer, ExecutionContext = _ext.buffer_types()

_SHARDINGS = ("gather", "local", "error")


class ExecutionStage(enum.IntEnum):
    """Names XLA's stages of a call. Callbacks run in EXECUTE."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


def buffer_callback(
    callback: Callable[..., None] | str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
    sharding: Literal["gather", "local", "error"] = "gather",
) -> Callable[..., Any]:
    """Returns a function that calls `callback(ctx, out, *args, **kwargs)` inside compiled programs.

    The parameters include those of `jax.experimental.buffer_callback.buffer_callback`. `out` and the arguments are
    pytrees of `Buffer`: XLA's own memory, row-major and dense. Borrowed: valid until the callback returns. The callback
    fills `out`, whose memory is uninitialised, does not write to arguments, and returns None. As an exception, the
    callback may write to the `Buffer` of a mutable array (`jax.new_ref`), which changes the array in place. The
    callback runs on an XLA thread with the GIL held; several devices may take turns in it. After the call every use of
    a `Buffer` raises an error, and the call fails if an array, a memoryview or a tensor made from a `Buffer` still
    exists.

    On CUDA the memory is the device's. Callout neither copies nor waits: the callback queues work on `ctx.stream`, and
    must order work that it queues elsewhere by this stream. The device's context is current.

    Args:
        callback: a Python function (plain, or from `callout.options`), or a name that `callout.register` has bound to a
            native function or to a result of `buffer_callback`.
        result_shape_dtypes: a pytree with `shape` and `dtype` leaves.
        has_side_effect: keep the call even if its results are unused, and never repeat it.
        vmap_method: as in `jax.pure_callback`.
        input_output_aliases: {argument: result}, both flat indices. Such a result holds its argument's value at the
            start. Both are one memory unless XLA needs the argument later.
        command_buffer_compatible: a promise that the callback queues the same work on `ctx.stream` each time, and neither
            waits nor allocates. XLA may then record that work into a CUDA graph, and replay it without running Python: the
            callback runs when XLA records, once or more often for each set of buffers. No effect on a CPU.
        sharding: what happens in a jit over several devices. "gather": one call with whole arrays, on the first device;
            "local": each device calls with its shards, and a result is spread like an argument of its shape; "error":
            refuse.
            Inside `jax.shard_map` every device calls with its shards in any case.

    Returns:
        A function of arrays, and pytrees of them, that returns the results in the structure of `result_shape_dtypes`.

    Raises:
        ValueError: aliases do not fit; `vmap_method` or `sharding` is unknown; (from the returned function) the call is
            differentiated.
        TypeError: a dtype has less than a byte, so that elements have no address; `callout.pure_callback` supports it.

    Example:
        >>> def add_one(ctx, out, x):
        ...     np.asarray(out)[...] = np.asarray(x) + 1
        >>> call = callout.buffer_callback.buffer_callback(add_one, jax.ShapeDtypeStruct((3,), jnp.float32))
        >>> jax.jit(call)(jnp.zeros(3))
        Array([1., 1., 1.], dtype=float32)
    """
    check_vmap_method(WHERE, vmap_method)
    if sharding not in _SHARDINGS:
        raise ValueError(f"{WHERE}: sharding must be one of {list(_SHARDINGS)}, got {sharding!r}")
    avals, out_tree = result_avals(WHERE, result_shape_dtypes)
    _refuse_narrow("result", avals)

    def call(*args: Any, **kwargs: Any) -> Any:
        flat, in_tree = jax.tree.flatten((args, kwargs))
        refs = _refs(callback, flat, input_output_aliases)
        leaves = as_leaves(WHERE, flat, in_tree, is_call=True)
        types = [jax.typeof(leaf) for leaf in leaves]
        _refuse_narrow("argument", types)
        # Each mutable array becomes a further result, aliased with the array: the callback writes to it in place.
        held = tuple(jax.core.ShapedArray(types[i].shape, types[i].dtype) for i in refs)
        pairs = {**(input_output_aliases or {}), **{i: len(avals) + k for k, i in enumerate(refs)}}
        out = buffer_p.bind(
            *leaves,
            target=_target(callback, in_tree, out_tree, refs),
            result_avals=(*stated(jax.tree.leaves(result_shape_dtypes), avals), *held),
            vmap_method=vmap_method,
            has_side_effect=has_side_effect,
            aliases=check_aliases(WHERE, pairs, types, (*avals, *held)),
            sharding=sharding,
            capturable=command_buffer_compatible,
            graph=False,
        )
        for i, left in zip(refs, out[len(avals) :], strict=True):
            flat[i][...] = left
        return jax.tree.unflatten(out_tree, out[: len(avals)])

    buffer_functions.note(call, callback, out_tree)
    return call


def _refs(callback: Any, flat: Sequence[Any], aliases: Mapping[int, int] | None) -> tuple[int, ...]:
    """Returns the places of the mutable arrays that the function may write to: all, or none for a native function."""
    if isinstance(callback, str):
        return ()
    refs = tuple(i for i, leaf in enumerate(flat) if is_ref(leaf))
    for i in refs:
        if aliases is not None and i in aliases:
            raise ValueError(
                f"{WHERE}: input_output_aliases names argument {i}, a mutable array, which the callback writes to "
                "itself"
            )
    return refs


def _refuse_narrow(what: str, avals: Any) -> None:
    for i, aval in enumerate(avals):
        name = np.dtype(aval.dtype).name
        if name in _ext.SUB_BYTE_BITS:
            raise TypeError(f"{WHERE}: {what} {i} is {name}, which XLA packs; callout.pure_callback unpacks it")


def _target(
    callback: Callable[..., Any] | str, in_tree: PyTreeDef, out_tree: PyTreeDef, refs: tuple[int, ...]
) -> Target:
    if isinstance(callback, str):
        target = call_target(callback, in_tree, out_tree).for_programs()
        if target.is_python() and not target.callback().takes_buffers:
            raise TypeError(
                f"{WHERE}: '{callback}' is bound to a Python function of arrays. Bind one of buffers, "
                f"callout.register({callback!r}, callout.buffer_callback(fn, result_shape_dtypes)), or pass the function "
                "itself"
            )
        return target
    if not callable(callback):
        raise TypeError(f"{WHERE}: expected a callable or a registered name, got {callback!r}")
    fn, chosen = options.split(callback)
    label = chosen.name or function_name(fn)
    single = is_leaf(out_tree)

    def arguments(leaves: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = jax.tree.unflatten(in_tree, leaves[2:])
        return (*leaves[:2], *args), kwargs

    def arguments_with_refs(leaves: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ctx, outs, *operands = leaves
        for place, written in zip(refs, outs[out_tree.num_leaves :], strict=True):
            operands[place] = written
        args, kwargs = jax.tree.unflatten(in_tree, operands)
        return (ctx, jax.tree.unflatten(out_tree, outs[: out_tree.num_leaves]), *args), kwargs

    def run(ctx: Any, outs: Sequence[Any], *operands: Any) -> None:
        """Calls the function with flat buffers, like the callback of the core."""
        out = tuple(outs) if refs else outs[0] if single else jax.tree.unflatten(out_tree, outs)
        leaves = (ctx, out, *operands)
        args, kwargs = arguments_with_refs(leaves) if refs else arguments(leaves)
        fn(*args, **kwargs)

    def make(_: Transforms) -> _ext.Callback:
        return _ext.make_buffer_callback(
            label=label,
            function=fn,
            unflatten_out=tuple if refs else None if single else out_tree.unflatten,
            unflatten=arguments_with_refs if refs else None if is_flat_call(in_tree) else arguments,
            numpy_only=chosen.numpy_only,
        )

    signature = ("buffer", str(in_tree), str(out_tree), chosen, *((refs,) if refs else ()))
    return interned(
        "buffer",
        callback,
        (in_tree, out_tree, refs),
        lambda key: BufferTarget(key, label, chosen.numpy_only, make, signature, chosen.device_index or 0, run=run),
    )
