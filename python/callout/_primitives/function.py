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

from .. import _jax_compat
from .._native.target import NativeTarget
from . import lowering
from .aliases import Aliases, alias_attributes, own_operands
from .batching import VMAP_METHODS, batch_call, batched_aval, in_front
from .call import Avals, lower_call, refuse

function_p = jax.extend.core.Primitive("callout_function")
function_p.multiple_results = True
_jax_compat.require_devices(function_p)
function_p.def_impl(functools.partial(xla.apply_primitive, function_p))

PARALLEL = "parallel"

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


def _specialised(
    target: NativeTarget, args: Sequence[Any], results: Sequence[Any], lanes: Lanes | None
) -> NativeTarget:
    """The target for what one lane has."""
    if lanes is None:
        return target.specialise(args, results)
    extents, masks = lanes
    begins = [mask.bit_count() for mask in masks]
    of_args = [jax.ShapeDtypeStruct(a.shape[begin:], a.dtype) for a, begin in zip(args, begins, strict=True)]
    of_results = [jax.ShapeDtypeStruct(a.shape[len(extents) :], a.dtype) for a in results]
    return target.specialise(of_args, of_results)


@function_p.def_abstract_eval
def _abstract_eval(*args: Any, target: NativeTarget, result_avals: Avals, lanes: Lanes | None, **_: Any) -> Avals:
    _specialised(target, args, result_avals, lanes)
    return result_avals


def _lower(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: NativeTarget,
    attributes: tuple[tuple[str, Constant], ...],
    sharding: Any,
    lanes: Lanes | None,
    aliases: Aliases,
    **_: Any,
) -> list[Any]:
    where = f"native function '{target.label}'"
    lowering.refuse_automatic_axes(ctx, where)
    target = _specialised(target, ctx.avals_in, ctx.avals_out, lanes)
    constants: dict[str, Any] = target.attributes()
    if attributes:
        constants["attributes"] = {key: constant.value for key, constant in attributes}
    constants.update(alias_attributes(aliases))
    in_place = dict(aliases)
    if lanes is not None:
        extents, masks = lanes
        constants["lane_dims"], constants["lane_masks"] = np.asarray(extents, np.int64), np.asarray(masks, np.int64)
        whole = (1 << len(extents)) - 1
        in_place = {operand: result for operand, result in aliases if masks[operand] == whole}
    return lower_call(
        ctx, args, where, target, device=sharding, ordered=False, has_side_effect=False, in_place=in_place, **constants
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
    if vmap_method == PARALLEL:
        return _batch_in_parallel(args, dims, size, **params)
    if vmap_method is None:
        methods = [PARALLEL, *(method for method in VMAP_METHODS if method)]
        raise NotImplementedError(
            f"native function '{params['target'].label}': vmap needs a vmap_method, one of {methods}"
        )
    return batch_call(function_p, *own_operands(aliases, args, dims), **params)


lowering.register(function_p, _lower)
batching.primitive_batchers[function_p] = _batch
ad.primitive_jvps[function_p] = functools.partial(refuse, "Native", "JVP", "jvp= or vjp=")
ad.primitive_transposes[function_p] = functools.partial(refuse, "Native", "transpose", "vjp=")
