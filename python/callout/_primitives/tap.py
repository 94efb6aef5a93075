# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `tap`: the identity on its operands, which it also sends."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from .. import _ext, _jax_compat
from .._targets.sink import check_leaves
from .._targets.target import AnyTarget, Target, Transforms
from . import context, eager, effects, lowering, tapped_values
from .site import TARGET, Site

tap_p = jex_core.Primitive("callout_tap")
tap_p.multiple_results = True


class _Frozen(tuple[Any, ...]):
    """Makes transforms hashable, which contain dicts, because JAX hashes a primitive's parameters."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(repr(tuple(self))) if self else 0


no_transforms = _Frozen(())


@tap_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, target: Target, site: Site, **_: Any) -> tuple[list[Any], set[Any]]:
    if not site.has_rows:
        check_sent(avals, target, site, is_exact=False)
    return list(avals), effects.observing(site.ordered)


def _eager(args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    target, site = params["target"], params["site"]
    check_sent(args, target, site)
    eager.send_tap(args, target, site, params["transforms"])
    return list(args)


eager.def_eager(tap_p, _eager)


def check_sent(avals: Sequence[Any], target: AnyTarget, site: Site, *, is_exact: bool = True) -> None:
    """Lets a sink check the value. The check is exact once `vmap` has added all of its axes."""
    if target.kind == "sink":
        check_sink(target.source, avals, site, is_exact=is_exact)


def check_sink(sink: Any, avals: Sequence[Any], site: Site, *, is_exact: bool = False) -> None:
    """Lets a sink, which may be an argument of the program, check the value; see `check_sent`."""
    is_whole = site.sharding == "gather"
    check_leaves(sink, site.leaves, avals, label=site.label, is_whole=is_whole, is_exact=is_exact)


def batched_transforms(transforms: Transforms, site: Site, dims: Sequence[Any]) -> Transforms:
    """Returns `transforms`, followed by a `vmap` with these dimensions of the operands."""
    if site.has_step:
        dims = dims[:-1]
        if all(dim is None for dim in dims):
            return transforms
    return _Frozen((*transforms, ("batch", {"batch_dims": tuple(dims)})))


def _batch(
    args: Sequence[Any], dims: Sequence[Any], *, transforms: Transforms, site: Site, **params: Any
) -> tuple[Any, Any]:
    if site.has_handle and dims[0] is not None:
        _tap_lanes(args, dims, {**params, "transforms": transforms, "site": site})
        return args, dims
    transforms = batched_transforms(transforms, site, dims)
    return tap_p.bind(*args, transforms=transforms, site=site, **params), list(dims)


def _tap_lanes(args: Sequence[Any], dims: Sequence[Any], params: dict[str, Any]) -> None:
    """Taps each lane separately, because each has its own sink."""
    rows = [jax.numpy.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims, strict=True) if dim is not None]

    def tap_lane(lane: Sequence[Any]) -> None:
        own = iter(lane)
        tap_p.bind(*(arg if dim is None else next(own) for arg, dim in zip(args, dims, strict=True)), **params)

    jax.lax.map(tap_lane, rows)


batching.primitive_batchers[tap_p] = _batch


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, list[Any]]:
    return tap_p.bind(*primals, **params), list(tangents)


ad.primitive_jvps[tap_p] = _jvp


def transposed_transforms(transforms: Transforms) -> Transforms:
    """Returns `transforms`, followed by a transposition."""
    return _Frozen((*transforms, ("transpose", {})))


def _transpose(
    cotangents: Sequence[Any], *primals: Any, transforms: Transforms, site: Site, **params: Any
) -> Sequence[Any]:
    """Transposes a tap in a linear function, such as a custom tangent rule: the tap then sends the cotangents."""
    if all(isinstance(cotangent, ad.Zero) for cotangent in cotangents):
        return cotangents
    values = [_jax_compat.instantiate_cotangent(cotangent) for cotangent in cotangents]
    if site.has_step:
        values[-1] = primals[-1]  # the step is no linear operand
    outs: list[Any] = tap_p.bind(*values, transforms=transposed_transforms(transforms), site=site, **params)
    if site.has_step:
        outs[-1] = None
    return outs


ad.primitive_transposes[tap_p] = _transpose


def partial_eval(saveable: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Taps in the forward pass, and again if remat computes the values again, unless the policy saves the tap."""

    def is_saved() -> bool:
        return bool(saveable(eqn.primitive, *[var.aval for var in eqn.invars], **eqn.params))

    return _jax_compat.split_for_remat(eqn, unknown_in, instantiated_in, is_saved)


def kept(is_saveable: bool, operands: Sequence[Any]) -> list[Any] | None:
    """Returns the saved results, which are the operands, or None if the backward pass must tap again."""
    return list(operands) if is_saveable else None


_jax_compat.register_remat_rule(tap_p, partial_eval, kept)


def where_of(target: Target, site: Site) -> str:
    """Returns the tap's name in errors."""
    return f"callout.tap '{site.label or target.label}'"


def _lower(
    ctx: mlir.LoweringRuleContext, *args: Any, target: Target, site: Site, transforms: Transforms
) -> Sequence[Any]:
    where = where_of(target, site)
    if not site.has_rows:  # else the records have been checked when the loop was lowered
        check_sent(ctx.avals_in, target, site)
    again = functools.partial(tap_p.bind, target=target, site=site, transforms=transforms)
    if site.sharding == "gather" and context.automatic_axes(ctx):
        lowering.bind_on_one_device(ctx, where, again, args, site.device_index, site.ordered)
    elif site.sharding == "gather" or not lowering.bind_on_shards(ctx, again, args):
        emit_tap(ctx, args, where, lowering.bound_name(ctx, target, where, transforms), site)
    return args  # the operands themselves, so that no computation depends on the tap


lowering.register(tap_p, _lower)


def emit_tap(
    ctx: mlir.LoweringRuleContext, args: Sequence[Any], where: str, name: str, site: Site, *, threaded: bool = False
) -> list[Any]:
    """Emits the custom call of a tap, and returns its results: tokens."""
    tapped_values.note_tap()
    _ext.set_process_index(jax.process_index())
    return lowering.emit(
        ctx,
        TARGET,
        args,
        {"callback": name, **site.attributes()},
        where=where,
        ordered=site.ordered,
        threaded=threaded,
        avals_out=None if threaded else (),
        sharding=site.sharding,
        device_index=site.device_index,
    )
