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

ALL_PPB = 1_000_000_000  # of `sample`, parts in a billion


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
    has_step: bool = False  # the last operand is the step, and no part of the value
    sample_ppb: int = ALL_PPB
    only_device: int = -1
    only_process: int = -1
    can_fail: bool = False  # its target may fail the program
    whole_batch: bool = False  # under every vmap, of a cond or a loop too, as `host_callback` has it

    def admits_all(self) -> bool:
        return self.every == 1 and self.min_interval_ns == 0 and self.sample_ppb == ALL_PPB

    def admits_process(self) -> bool:
        return self.only_process in (-1, jax.process_index())

    def admits_device(self, ordinal: int) -> bool:
        return self.only_device in (-1, ordinal)


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
    value, step = (args[:-1], int(to_host(args[-1]).flat[0])) if site.has_step else (args, None)
    if site.inline:
        ordinal = placement(value, site.device_index)[1]
        _ext.tap_inline(callback, [to_host(arg) for arg in value], site.label, list(site.leaves), ordinal)
        return list(args)

    def send(values: Sequence[Any], ordinal: int, has_offsets: bool) -> None:
        if site.admits_device(ordinal):
            _ext.tap_eager(
                callback, values, site.label, list(site.leaves), site.on_full, ordinal, has_offsets, step, unsent
            )

    if not site.admits_process():
        return list(args)
    if throttle is not None and not throttle.value.admit(step):
        _ext.count_skip(callback)
        return list(args)
    unsent = throttle.value.take_unsent() if throttle is not None else 0
    if site.sharding == "local":
        parts = list(shards(value))
        for ordinal, values, begins in parts:
            send([*values, begins] if len(parts) > 1 else values, ordinal, len(parts) > 1)
    else:
        send([to_host(arg) for arg in value], placement(value, site.device_index)[1], False)
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
    for key, number, default in (
        ("step", int(site.has_step), 0),
        ("sample_ppb", site.sample_ppb, ALL_PPB),
        ("only_device", site.only_device, -1),
        ("only_process", site.only_process, -1),
        ("can_fail", int(site.can_fail), 0),
    ):
        if number != default:
            more[key] = np.int64(number)
    if site.only_process != -1:
        _ext.set_process_index(jax.process_index())
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


def _batch(
    args: Sequence[Any], dims: Sequence[Any], *, transforms: Transforms, site: Site, **params: Any
) -> tuple[Any, Any]:
    transforms = batched_transforms(transforms, site, dims)
    return tap_p.bind(*args, transforms=transforms, site=site, **params), list(dims)


batching.primitive_batchers[tap_p] = _batch


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, list[Any]]:
    return tap_p.bind(*primals, **params), list(tangents)


ad.primitive_jvps[tap_p] = _jvp


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


_jax_compat.register_remat_rule(tap_p, partial_eval)


class _Frozen(tuple[Any, ...]):
    """Transforms as a primitive's parameter: JAX hashes parameters, and the descriptors hold dicts."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(repr(tuple(self)))


no_transforms = _Frozen(())


def batched_transforms(transforms: Transforms, site: Site, dims: Sequence[Any]) -> Transforms:
    """`transforms`, and then `vmap` with these dimensions of the operands."""
    if site.has_step:
        dims = dims[:-1]
        if all(dim is None for dim in dims):
            return transforms
    return _Frozen((*transforms, ("batch", {"batch_dims": tuple(dims)})))


def transposed_transforms(transforms: Transforms) -> Transforms:
    """`transforms`, and then a transposition."""
    return _Frozen((*transforms, ("transpose", {})))
