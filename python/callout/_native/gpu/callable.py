# SPDX-License-Identifier: Apache-2.0
"""`callout.numba_cuda.numba_cuda_callable` calls a Python function that launches kernels on XLA's memory and stream."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ... import _ext
from ..._base.arguments import as_leaves
from ..._callbacks.pure_callback import result_avals
from ..._primitives.aliases import check_aliases
from ..._primitives.batching import check_vmap_method
from ..._primitives.buffer import buffer_p
from ..._targets.function_targets import function_name
from ..._targets.target import Target, Transforms, interned
from .numba_packages import import_cuda


class CallableTarget(Target):
    """Calls a Python function of device arrays and a stream."""

    __slots__ = ()

    platforms: tuple[str, ...] = ("cuda",)


def numba_cuda_callable(
    func: Callable[..., None],
    outs: Any,
    *,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    scratch: Any = None,
    graph: bool = False,
) -> Callable[..., Any]:
    """Returns a function that calls `func(*arguments, *results, *scratch, stream)` from inside compiled programs.

    `func` gets Numba device arrays over XLA's own memory, row-major, 0-d for scalars: one for each leaf of the
    arguments, of `outs` and of `scratch`; and XLA's stream, on which it launches kernels and copies. `func` fills the
    results, whose memory is uninitialised, does not write to arguments, and returns None. It runs on an XLA thread with
    the GIL held, in the device's context; its exceptions fail the computation. Callout neither copies nor waits. The
    arrays are borrowed: valid until `func` returns; keeping one is an error.

    Args:
        func: a Python function. Kernels are launched as `kernel[grid, block, stream](...)`.
        outs: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments (with `shape` and `dtype`)
            that returns one.
        vmap_method: as in `jax.pure_callback`.
        input_output_aliases: {argument: result}, both flat indices. Such a result holds its argument's value when
            `func` is called. Both are one memory unless XLA needs the argument later.
        scratch: memory for the use of `func` alone, in the form of `outs`. Its contents are dropped.
        graph: record the work of `func` into a CUDA graph, once for each set of buffers that XLA passes, and launch the
            graph from then on without running Python. `func` must then queue the same work each time, all of it on
            `stream`, and must not allocate or wait; it may use `scratch`. The first call on a device is not recorded,
            so that Numba can compile and load the kernels.

    Returns:
        A function of arrays, or pytrees of them, that returns the results in the structure of `outs`.

    Raises:
        ImportError: numba-cuda is not installed.
        TypeError: `func` is not callable; or, from the returned function, device arrays do not support a dtype.
        ValueError: aliases that do not fit; an unknown `vmap_method`; (from the returned function) a derivative.

    Example:
        >>> from numba import cuda
        >>> @cuda.jit
        ... def add(x, y, out):
        ...     i = cuda.grid(1)
        ...     if i < out.size:
        ...         out[i] = x[i] + y[i]
        >>> def launch(x, y, out, stream):
        ...     add[4, 256, stream](x, y, out)
        >>> call = callout.numba_cuda.numba_cuda_callable(launch, jax.ShapeDtypeStruct((1024,), jnp.float32))
        >>> z = call(jnp.ones(1024), jnp.ones(1024))
    """
    if not callable(func):
        raise TypeError(f"callout.numba_cuda: expected a function, got {func!r}")
    where = f"callout.numba_cuda {getattr(func, '__name__', repr(func))!r}"
    check_vmap_method(where, vmap_method)
    cuda = import_cuda("callout.numba_cuda")

    def call(*args: Any) -> Any:
        flat, in_tree = jax.tree.flatten(args)
        leaves = as_leaves(where, flat, jax.tree.structure((args, {})), is_call=True)
        types = [jax.typeof(leaf) for leaf in leaves]
        shapes = jax.tree.unflatten(in_tree, [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in types])
        results, out_tree = result_avals(where, outs(*shapes) if callable(outs) else outs)
        hidden, _ = result_avals(where, scratch(*shapes) if callable(scratch) else scratch)
        _refuse_dtypes(where, types, results, hidden)
        called = buffer_p.bind(
            *leaves,
            target=_target(func, cuda, graph),
            result_avals=(*results, *hidden),
            vmap_method=vmap_method,
            has_side_effect=False,
            aliases=check_aliases(where, input_output_aliases or {}, types, results),
            sharding="gather",
            capturable=False,
            graph=graph,
        )
        return jax.tree.unflatten(out_tree, called[: len(results)])

    functools.update_wrapper(call, func, assigned=("__name__", "__qualname__", "__module__", "__doc__"))
    return call


def _refuse_dtypes(where: str, *avals_of: Sequence[Any]) -> None:
    """Raises TypeError for dtypes that the CUDA array interface does not have."""
    for what, avals in zip(("argument", "result", "scratch"), avals_of, strict=True):
        for i, aval in enumerate(avals):
            dtype = np.dtype(aval.dtype)
            if dtype.isbuiltin != 1:
                raise TypeError(
                    f"{where}: {what} {i} is {dtype.name}, which device arrays do not have; convert it, or pass its bits "
                    "(jax.lax.bitcast_convert_type)"
                )


def _array(cuda: Any, buffer: Any, stream: int) -> Any:
    """Returns a device array over a buffer, with `stream` as its default stream."""
    interface = {**buffer.__cuda_array_interface__, "stream": stream}
    return cuda.from_cuda_array_interface(interface, owner=buffer, sync=False)  # without waiting for the stream


def _on_device(func: Callable[..., None], cuda: Any, graph: bool) -> Callable[..., Any]:
    """Wraps the function as a buffer callback."""
    # Numba must not free memory while a call is recorded, because CUDA reports an error.
    cleanup = cuda.defer_cleanup if graph else contextlib.nullcontext

    def run(ctx: Any, out: tuple[Any, ...], *args: Any) -> Any:
        arrays = [_array(cuda, buffer, ctx.stream) for buffer in (*args, *out)]
        with cleanup():
            return func(*arrays, cuda.external_stream(ctx.stream))

    return run


def _target(func: Callable[..., None], cuda: Any, graph: bool) -> Target:
    label = function_name(func)

    def make(_: Transforms) -> _ext.Callback:
        return _ext.make_buffer_callback(
            label=label, function=_on_device(func, cuda, graph), unflatten_out=tuple, unflatten=None, numpy_only=False
        )

    def target(key: Hashable) -> Target:
        return CallableTarget(key, label, False, make, ("numba_cuda_callable", graph))

    return interned("numba_cuda_callable", func, (cuda.__name__, graph), target)
