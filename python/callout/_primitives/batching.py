# SPDX-License-Identifier: Apache-2.0
"""Batching rules by `vmap_method`. The methods' names and meanings are those of `jax.pure_callback`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .. import _jax_compat

# The public functions of primitives, for errors.
_PUBLIC_NAMES = {"callout_call": "callout.pure_callback", "callout_buffer_callback": "callout.buffer_callback"}

INSIDE_RULES = "A call inside a derivative rule, a custom_jvp or custom_vjp, needs one of its own"

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


def check_vmap_method(where: str, vmap_method: str | None, more: tuple[str, ...] = ()) -> None:
    """Raises ValueError for an unknown method. `more`: further methods that this caller has."""
    if vmap_method not in (*more, *VMAP_METHODS):
        raise ValueError(f"{where}: vmap_method must be one of {[*more, *VMAP_METHODS]}, got: {vmap_method}")


def batched_aval(aval: jax.core.ShapedArray, size: int) -> jax.core.ShapedArray:
    """Returns the type with the batch as its first axis."""
    return _jax_compat.array_type((size, *aval.shape), aval.dtype, _jax_compat.varying_axes(aval))


def in_front(args: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Moves the batch of every operand to the first axis. A dimension of None means no batch."""
    return [arg if dim is None else jnp.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims, strict=True)]


def loop_over_batch(
    bind: Callable[..., list[Any]], args: Sequence[Any], dims: Sequence[int | None], *, unroll: bool = False
) -> tuple[list[Any], list[int]]:
    """Applies a batching rule that calls once for each lane, in order. Results are batched along their first axis."""
    _, outs, out_dims = thread_over_batch(lambda _, *values: (None, bind(*values)), None, args, dims, unroll=unroll)
    return outs, out_dims


def thread_over_batch(
    bind: Callable[..., tuple[Any, list[Any]]],
    token: Any,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    unroll: bool = False,
) -> tuple[Any, list[Any], list[int]]:
    """Loops like `loop_over_batch`, with a function that takes a token as first argument, and returns the next token."""
    front = in_front(args, dims)
    mapped = [dim is not None for dim in dims]

    def step(token: Any, slices: list[Any]) -> tuple[Any, list[Any]]:
        rest = iter(slices)
        values = [next(rest) if is_mapped else arg for arg, is_mapped in zip(front, mapped, strict=True)]
        return bind(token, *values)

    xs = [arg for arg, is_mapped in zip(front, mapped, strict=True) if is_mapped]
    token, outs = jax.lax.scan(step, token, [_jax_compat.gathered(arg, 0) for arg in xs], unroll=unroll)
    return token, [_jax_compat.spread_like(out, 0, xs[0], 0) for out in outs], [0] * len(outs)


def batch_call(
    primitive: Any,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    vmap_method: str | None,
    result_avals: tuple[jax.core.ShapedArray, ...],
    **params: Any,
) -> tuple[list[Any], list[int]]:
    """Applies a primitive's batching rule for `vmap_method`. Results are batched along their first axis."""
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)

    def bind(values: Sequence[Any], avals: tuple[jax.core.ShapedArray, ...]) -> list[Any]:
        results: list[Any] = primitive.bind(*values, vmap_method=vmap_method, result_avals=avals, **params)
        return results

    if vmap_method in ("sequential", "sequential_unrolled"):
        unroll = vmap_method == "sequential_unrolled"
        return loop_over_batch(lambda *values: bind(values, result_avals), args, dims, unroll=unroll)
    front = in_front(args, dims)
    if vmap_method in ("expand_dims", "broadcast_all"):
        width = size if vmap_method == "broadcast_all" else 1
        front = [
            jnp.broadcast_to(arg, (width, *jnp.shape(arg))) if dim is None else arg
            for arg, dim in zip(front, dims, strict=True)
        ]
    elif vmap_method != "legacy_vectorized":
        raise NotImplementedError(
            f"{_PUBLIC_NAMES.get(primitive.name, primitive.name)} '{params['target'].label}': vmap needs a vmap_method, one "
            f"of {[method for method in VMAP_METHODS if method]}; got vmap_method=None. {INSIDE_RULES}"
        )
    like = next(arg for arg, dim in zip(front, dims, strict=True) if dim is not None)
    outs = bind(front, tuple(batched_aval(aval, size) for aval in result_avals))
    return [_jax_compat.spread_like(out, 0, like, 0) for out in outs], [0] * len(outs)
