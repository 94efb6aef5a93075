# SPDX-License-Identifier: Apache-2.0
"""The primitive behind native functions: a call with constants, and with no Python at run time."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.extend.core
import numpy as np
from jax.interpreters import ad, batching, mlir, xla

from .. import _attributes, _patches
from .._gpu.target import GpuTarget
from .._native.target import NativeTarget
from . import context, lowering
from .aliases import Aliases, own_operands
from .batching import INSIDE_RULES, VMAP_METHODS, batch_call, batched_aval, in_front
from .call import Avals, lower_call, refuse
from .varying import result_types

function_p = jax.extend.core.Primitive("callout_function")
function_p.multiple_results = True
function_p.def_impl(functools.partial(xla.apply_primitive, function_p))

PARALLEL = "parallel"
# For GPU kernels, which are launched for the shapes that they were traced for, these mean one launch a lane, too.
_WHOLE_BATCH = ("expand_dims", "broadcast_all", "legacy_vectorized")

# The extents of a batch, outermost first, and for each operand which of them it has (bit i: the i-th).
Lanes = tuple[tuple[int, ...], tuple[int, ...]]


class Constant:
    """An attribute's value as a parameter of a primitive: compared by its bytes."""

    __slots__ = ("_key", "value")

    def __init__(self, value: str | np.ndarray | np.generic):
        is_array = isinstance(value, np.ndarray)  # an array of no dimensions is not a number
        if isinstance(value, np.ndarray):
            value = value.copy()  # what becomes of the caller's is of no matter
            value.setflags(write=False)
        self.value = value
        self._key = value if isinstance(value, str) else (is_array, value.dtype.str, value.shape, value.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def _of_one_lane(
    args: Sequence[Any], results: Sequence[Any], lanes: Lanes | None
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The operands' and the results' shapes and dtypes without the batch."""
    if lanes is None:
        return args, results
    extents, masks = lanes
    begins = [mask.bit_count() for mask in masks]
    of_args = [jax.ShapeDtypeStruct(a.shape[begin:], a.dtype) for a, begin in zip(args, begins, strict=True)]
    return of_args, [jax.ShapeDtypeStruct(a.shape[len(extents) :], a.dtype) for a in results]


def _specialised(
    target: NativeTarget, args: Sequence[Any], results: Sequence[Any], lanes: Lanes | None
) -> NativeTarget:
    """The target for what one lane has."""
    return target.specialise(*_of_one_lane(args, results, lanes))


@function_p.def_abstract_eval
def _abstract_eval(*args: Any, target: NativeTarget, result_avals: Avals, lanes: Lanes | None, **_: Any) -> Avals:
    _specialised(target, args, result_avals, lanes)
    return result_types(args, result_avals)


def _in_lanes(aliases: Aliases, lanes: Lanes | None) -> tuple[dict[str, Any], dict[int, int]]:
    """The attributes of a batch, and the operands whose memory the compiler may give to results."""
    if lanes is None:
        return {"aliases": aliases}, dict(aliases)
    extents, masks = lanes
    whole = (1 << len(extents)) - 1
    in_place = {operand: result for operand, result in aliases if masks[operand] == whole}
    return {"lane_dims": extents, "lane_masks": masks, "aliases": aliases}, in_place


def _lower(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: NativeTarget,
    attributes: tuple[tuple[str, Constant], ...],
    sharding: Any,
    lanes: Lanes | None,
    aliases: Aliases,
    **_: Any,
) -> Sequence[Any]:
    lowering.refuse_others(ctx, target.platforms)
    where = f"native function '{target.label}'"
    target = _specialised(target, ctx.avals_in, ctx.avals_out, lanes)
    more, in_place = _in_lanes(aliases, lanes)
    if isinstance(target, GpuTarget):
        return _lower_launch(ctx, args, target, in_place, more, lanes)
    lowering.refuse_automatic_axes(ctx, where)
    constants: dict[str, Any] = {**target.attributes(), **more}
    if attributes:
        constants["attributes"] = {key: constant.value for key, constant in attributes}
    return lower_call(
        ctx,
        args,
        where,
        target,
        name=target.handler,
        device=sharding,
        ordered=False,
        has_side_effect=False,
        in_place=in_place,
        attributes=constants,
    )


def _lower_launch(
    ctx: mlir.LoweringRuleContext,
    args: Sequence[Any],
    target: GpuTarget,
    in_place: dict[int, int],
    more: dict[str, Any],
    lanes: Lanes | None,
) -> Sequence[Any]:
    """The launch of a kernel. In a jit over several devices XLA lets each of them do it, with whole arrays."""
    _patches.ensure("errors")
    kernel = target.kernel_for(*_of_one_lane(ctx.avals_in, ctx.avals_out, lanes))
    lower = jax.ffi.ffi_lowering(kernel.target, has_side_effect=False, operand_output_aliases=in_place)
    said = {"callback": target.label, **kernel.attributes(portable=context.is_exporting(ctx)), **more}
    carried = _attributes.encode(f"kernel '{target.label}'", kernel.target, said)
    results: Sequence[Any] = lower(ctx, *args, **carried)
    return results


def _batch_in_parallel(
    args: Sequence[Any], dims: Sequence[Any], size: int, *, result_avals: Avals, lanes: Lanes | None, **params: Any
) -> tuple[list[Any], list[int]]:
    extents, masks = lanes or ((), (0,) * len(args))
    extents = (size, *extents)
    masks = tuple(mask << 1 | (dim is not None) for mask, dim in zip(masks, dims, strict=True))
    avals = tuple(batched_aval(aval, size) for aval in result_avals)
    outs = function_p.bind(*in_front(args, dims), result_avals=avals, lanes=(extents, masks), **params)
    return outs, [0] * len(outs)


def _batch(
    args: Sequence[Any], dims: Sequence[Any], *, vmap_method: str | None, aliases: Aliases, **params: Any
) -> tuple[Any, Any]:
    params.update(vmap_method=vmap_method, aliases=aliases)
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    if vmap_method == PARALLEL or (vmap_method in _WHOLE_BATCH and isinstance(params["target"], GpuTarget)):
        return _batch_in_parallel(args, dims, size, **params)
    if vmap_method is None:
        more = [PARALLEL] if params["target"].has_parallel_lanes else []
        methods = [*more, *(method for method in VMAP_METHODS if method)]
        raise NotImplementedError(
            f"native function '{params['target'].label}': vmap needs a vmap_method, one of {methods}. {INSIDE_RULES}"
        )
    return batch_call(function_p, *own_operands(aliases, args, dims), **params)


mlir.register_lowering(function_p, _lower)
batching.primitive_batchers[function_p] = _batch
ad.primitive_jvps[function_p] = functools.partial(refuse, "Native", "JVP", "jvp= or vjp=")
ad.primitive_transposes[function_p] = functools.partial(refuse, "Native", "transpose", "vjp=")
