# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `tap`: the identity on its operands, which also leave the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import jax.extend.core
import numpy as np
from jax.interpreters import ad, batching, mlir

from .. import _ext, _jax_compat
from .._targets import Target, Transforms
from . import effects, lowering
from .eager import check_usable, placement, shards, to_host, wait_for_ordered


@dataclasses.dataclass(frozen=True)
class Site:
    """What one `tap` in the user's code was told, apart from its target."""

    label: str
    leaves: tuple[str, ...]
    every: int
    min_interval_ns: int
    on_full: int
    ordered: bool = False
    sharding: Literal["gather", "local"] = "gather"
    device_index: int = 0
    inline: bool = False  # eager taps run in the caller

    def admits_all(self) -> bool:
        return self.every == 1 and self.min_interval_ns == 0


tap_p = jax.extend.core.Primitive("callout_tap")
tap_p.multiple_results = True


@tap_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, site: Site, **_: Any) -> tuple[list[Any], set[Any]]:
    return list(avals), effects.observing(site.ordered)


@tap_p.def_impl
def _eager(*args: Any, target: Target, site: Site, transforms: Transforms, throttle: Any) -> list[Any]:
    check_usable()
    if site.ordered:
        wait_for_ordered()
    callback = target.callback(transforms)
    if site.inline:
        ordinal = placement(args, site.device_index)[1]
        _ext.tap_inline(callback, [to_host(arg) for arg in args], site.label, list(site.leaves), ordinal)
        return list(args)

    def send(values: Sequence[Any], ordinal: int, has_offsets: bool) -> None:
        _ext.tap_eager(callback, values, site.label, list(site.leaves), site.on_full, ordinal, has_offsets)

    if throttle is not None and not throttle.value.admit():
        _ext.count_skip(callback)
    elif site.sharding == "local":
        for ordinal, values, begins in shards(args):
            send([*values, begins], ordinal, True)
    else:
        send([to_host(arg) for arg in args], placement(args, site.device_index)[1], False)
    return list(args)


def lower_tap(
    ctx: mlir.LoweringRuleContext,
    args: Sequence[Any],
    where: str,
    target: Target,
    site: Site,
    transforms: Transforms,
    **more: Any,
) -> list[Any]:
    """The custom call of a tap; `more` goes to `lowering.emit`."""
    name = lowering.name_of(ctx, target, where, transforms)
    return lowering.emit(
        ctx,
        "callout.v1.tap",
        args,
        where=where,
        ordered=site.ordered,
        sharding=site.sharding,
        device_index=site.device_index,
        callback=name,
        label=site.label,
        leaves="\n".join(site.leaves),
        every=np.int64(site.every),
        min_interval_ns=np.int64(site.min_interval_ns),
        on_full=np.int64(site.on_full),
        **more,
    )


def _lower(
    ctx: mlir.LoweringRuleContext, *args: Any, target: Target, site: Site, transforms: Transforms, throttle: Any
) -> Sequence[Any]:
    where = f"callout.tap '{site.label or target.label}'"

    def bind(*values: Any) -> Any:
        return tap_p.bind(*values, target=target, site=site, transforms=transforms, throttle=throttle)

    gather = site.sharding == "gather"
    if gather and lowering.once_for_automatic_axes(ctx, where, bind, args, site.device_index, site.ordered):
        return args
    lower_tap(ctx, args, where, target, site, transforms, avals_out=())
    return args  # the operands themselves: nothing of the program depends on the tap


lowering.register(tap_p, _lower)


def _batch(args: Sequence[Any], dims: Sequence[Any], *, transforms: Transforms, **params: Any) -> tuple[Any, Any]:
    return tap_p.bind(*args, transforms=batched_transforms(transforms, dims), **params), list(dims)


batching.primitive_batchers[tap_p] = _batch


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, list[Any]]:
    return tap_p.bind(*primals, **params), list(tangents)


ad.primitive_jvps[tap_p] = _jvp


def _transpose(cotangents: Sequence[Any], *_: Any, transforms: Transforms, **params: Any) -> Sequence[Any]:
    """A tap in a linear function (a custom tangent rule): it gets the cotangents on the way back."""
    if all(isinstance(cotangent, ad.Zero) for cotangent in cotangents):
        return cotangents
    values = [_jax_compat.instantiate_cotangent(cotangent) for cotangent in cotangents]
    outs: Sequence[Any] = tap_p.bind(*values, transforms=_Frozen((*transforms, ("transpose", {}))), **params)
    return outs


ad.primitive_transposes[tap_p] = _transpose


def _partial_eval(saveable: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Remat: the tap fires in the forward pass and again where its values are computed again, unless the policy saves it."""
    count = len(eqn.outvars)
    missing = [
        var
        for var, ready in zip(eqn.invars, instantiated_in, strict=True)
        if not ready and _jax_compat.is_variable(var)
    ]
    if any(unknown_in):
        return None, eqn, [True] * count, [True] * count, missing
    if saveable(eqn.primitive, *[var.aval for var in eqn.invars], **eqn.params):
        return eqn, None, [False] * count, [False] * count, []
    return eqn, eqn, [False] * count, [True] * count, missing


_jax_compat.register_remat_rule(tap_p, _partial_eval)


class _Frozen(tuple[Any, ...]):
    """Transforms as a primitive's parameter: JAX hashes parameters, and the descriptors hold dicts."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(repr(tuple(self)))


no_transforms = _Frozen(())


def batched_transforms(transforms: Transforms, dims: Sequence[Any]) -> Transforms:
    """`transforms`, and then `vmap` with these dimensions."""
    return _Frozen((*transforms, ("batch", {"batch_dims": tuple(dims)})))
