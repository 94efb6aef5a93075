# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `tap`: the identity on its operands, which also leave the program."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.extend.core
from jax.interpreters import ad, batching, mlir

from .. import _ext, _jax_compat
from .._targets.sink import check_leaves
from .._targets.target import Target, Transforms
from . import context, eager, effects, lowering, tapped_values
from .site import TARGET, Site

tap_p = jax.extend.core.Primitive("callout_tap")
tap_p.multiple_results = True


class _Frozen(tuple[Any, ...]):
    """Holds transforms as a primitive's parameter: JAX hashes parameters, and the descriptors hold dicts."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(repr(tuple(self)))


no_transforms = _Frozen(())


@tap_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, site: Site, **_: Any) -> tuple[list[Any], set[Any]]:
    return list(avals), effects.observing(site.ordered)


@tap_p.def_impl
def _eager(*args: Any, target: Target, site: Site, transforms: Transforms) -> list[Any]:
    check_sent(args, target, site)
    eager.send_tap(args, target, site, transforms)
    return list(args)


def check_sent(avals: Sequence[Any], target: Target, site: Site) -> None:
    """Asks a sink whether it takes what will arrive, which is only known here: `vmap` has put its axes in front."""
    is_whole = site.sharding == "gather"
    if is_whole and target.kind == "sink":
        check_leaves(target.source, site.leaves, avals, label=site.label, is_whole=is_whole, is_exact=True)


def batched_transforms(transforms: Transforms, site: Site, dims: Sequence[Any]) -> Transforms:
    """Returns `transforms`, and then `vmap` with these dimensions of the operands."""
    if site.has_step:
        dims = dims[:-1]
        if all(dim is None for dim in dims):
            return transforms
    return _Frozen((*transforms, ("batch", {"batch_dims": tuple(dims)})))


def _batch(
    args: Sequence[Any], dims: Sequence[Any], *, transforms: Transforms, site: Site, **params: Any
) -> tuple[Any, Any]:
    transforms = batched_transforms(transforms, site, dims)
    return tap_p.bind(*args, transforms=transforms, site=site, **params), list(dims)


batching.primitive_batchers[tap_p] = _batch


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, list[Any]]:
    return tap_p.bind(*primals, **params), list(tangents)


ad.primitive_jvps[tap_p] = _jvp


def transposed_transforms(transforms: Transforms) -> Transforms:
    """Returns `transforms`, and then a transposition."""
    return _Frozen((*transforms, ("transpose", {})))


def _transpose(
    cotangents: Sequence[Any], *primals: Any, transforms: Transforms, site: Site, **params: Any
) -> Sequence[Any]:
    """A tap in a linear function (a custom tangent rule): it gets the cotangents on the way back."""
    if all(isinstance(cotangent, ad.Zero) for cotangent in cotangents):
        return cotangents
    values = [_jax_compat.instantiate_cotangent(cotangent) for cotangent in cotangents]
    if site.has_step:
        values[-1] = primals[-1]  # it is not of the linear part
    outs: list[Any] = tap_p.bind(*values, transforms=transposed_transforms(transforms), site=site, **params)
    if site.has_step:
        outs[-1] = None
    return outs


ad.primitive_transposes[tap_p] = _transpose


def partial_eval(saveable: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Taps in the forward pass, and in remat again where its values are computed again, unless the policy saves it."""

    def is_saved() -> bool:
        return bool(saveable(eqn.primitive, *[var.aval for var in eqn.invars], **eqn.params))

    return _jax_compat.split_for_remat(eqn, unknown_in, instantiated_in, is_saved)


_jax_compat.register_remat_rule(tap_p, partial_eval)


def where_of(target: Target, site: Site) -> str:
    """Returns what errors call it."""
    return f"callout.tap '{site.label or target.label}'"


def _lower(
    ctx: mlir.LoweringRuleContext, *args: Any, target: Target, site: Site, transforms: Transforms
) -> Sequence[Any]:
    where = where_of(target, site)
    check_sent(ctx.avals_in, target, site)
    again = functools.partial(tap_p.bind, target=target, site=site, transforms=transforms)
    if site.sharding == "gather" and context.automatic_axes(ctx):
        lowering.bind_on_one_device(ctx, where, again, args, site.device_index, site.ordered)
    elif site.sharding == "gather" or not lowering.bind_on_shards(ctx, again, args):
        emit_tap(ctx, args, where, lowering.bound_name(ctx, target, where, transforms), site)
    return args  # the operands themselves: nothing of the program depends on the tap


lowering.register(tap_p, _lower)


def emit_tap(
    ctx: mlir.LoweringRuleContext, args: Sequence[Any], where: str, name: str, site: Site, *, threaded: bool = False
) -> list[Any]:
    """Emits the custom call of a tap, and returns its results, which are tokens."""
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
