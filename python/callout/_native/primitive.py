# SPDX-License-Identifier: Apache-2.0
"""The primitive behind native functions and kernels: a call with constants, and with no Python at run time."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import ad, batching, mlir, xla

from .._base import patches
from .._primitives import lowering
from .._primitives.aliases import Aliases, own_operands
from .._primitives.batching import INSIDE_RULES, VMAP_METHODS, batch_call, batched_aval, in_front
from .._primitives.call import Avals, lower_call, refuse
from .._primitives.varying import result_types
from .._targets.foreign_attributes import Constant
from .native_target import NativeTarget

function_p = jax.extend.core.Primitive("callout_function")
function_p.multiple_results = True
function_p.def_impl(functools.partial(xla.apply_primitive, function_p))

PARALLEL = "parallel"
# For GPU kernels, which are launched for the shapes that they were traced for, these mean one launch a lane, too.
_WHOLE_BATCH = ("expand_dims", "broadcast_all", "legacy_vectorized")

# The extents of a batch, outermost first, and for each operand which of them it has (bit i: the i-th).
Lanes = tuple[tuple[int, ...], tuple[int, ...]]


def _of_one_lane(
    args: Sequence[Any], results: Sequence[Any], lanes: Lanes | None
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Returns the operands' and the results' shapes and dtypes without the batch."""
    if lanes is None:
        return args, results
    extents, masks = lanes
    begins = [mask.bit_count() for mask in masks]
    of_args = [jax.ShapeDtypeStruct(a.shape[begin:], a.dtype) for a, begin in zip(args, begins, strict=True)]
    return of_args, [jax.ShapeDtypeStruct(a.shape[len(extents) :], a.dtype) for a in results]


def _specialised(
    target: NativeTarget, args: Sequence[Any], results: Sequence[Any], lanes: Lanes | None
) -> NativeTarget:
    """Returns the target for what one lane has."""
    return target.specialise(*_of_one_lane(args, results, lanes))


@function_p.def_abstract_eval
def _abstract_eval(*args: Any, target: NativeTarget, result_avals: Avals, lanes: Lanes | None, **_: Any) -> Avals:
    patches.ensure("tapped_values")
    _specialised(target, args, result_avals, lanes)
    return result_types(args, result_avals)


def _in_lanes(aliases: Aliases, lanes: Lanes | None) -> tuple[dict[str, Any], dict[int, int]]:
    """Returns the attributes of a batch, and the operands whose memory the compiler may give to results."""
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
    lowering.refuse_others(ctx, target.label, target.platforms)
    where = f"native function '{target.label}'"
    target = _specialised(target, ctx.avals_in, ctx.avals_out, lanes)
    more, in_place = _in_lanes(aliases, lanes)
    if target.is_kernel:
        avals = _of_one_lane(ctx.avals_in, ctx.avals_out, lanes)
        return target.lower_launch(ctx, args, *avals, in_place=in_place, **more)
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
    if vmap_method == PARALLEL or (vmap_method in _WHOLE_BATCH and params["target"].is_kernel):
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
