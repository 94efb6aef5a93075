# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `debug_callback` and `debug_print`: no results, and it survives every transformation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.extend.core
from jax.interpreters import ad, mlir, xla

from .. import _jax_compat
from .._targets.target import Target
from . import call_kinds, context, effects, lowering
from .call import call_now, lower_call, wants_device

_WHERE = "callout.debug_callback"

debug_p = jax.extend.core.Primitive("callout_debug")
debug_p.multiple_results = True


@debug_p.def_effectful_abstract_eval
def _abstract_eval(*_: Any, ordered: bool, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], effects.observing(ordered)


@debug_p.def_impl
def _eager(*args: Any, target: Target, ordered: bool, **params: Any) -> list[Any]:
    if wants_device(args, target):
        return list(xla.apply_primitive(debug_p, *args, target=target, ordered=ordered, **params))
    return list(call_now(args, target, (), ordered))


def _jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
    return debug_p.bind(*primals, **params), []


ad.primitive_jvps[debug_p] = _jvp


def _transpose(_: Any, *args: Any, **__: Any) -> list[None]:
    return [None] * len(args)


ad.primitive_transposes[debug_p] = _transpose


def partial_eval(saveable: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Remat is as for JAX's own debug callbacks: again in the backward pass, unless the policy saves it and that costs."""
    missing = _jax_compat.not_instantiated(eqn, instantiated_in)
    if any(unknown_in):
        return None, eqn, [], [], missing
    if saveable(eqn.primitive, *[var.aval for var in eqn.invars], **eqn.params) and not all(instantiated_in):
        return eqn, None, [], [], []
    return eqn, eqn, [], [], missing


_jax_compat.register_remat_rule(debug_p, partial_eval)


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, target: Target, ordered: bool, partitioned: bool) -> list[Any]:
    if not partitioned and context.automatic_axes(ctx):
        again = functools.partial(debug_p.bind, target=target, ordered=ordered, partitioned=partitioned)
        lowering.bind_on_one_device(ctx, _WHERE, again, args, target.device_index, ordered)
        return []
    return lower_call(ctx, args, _WHERE, target, ordered=ordered, sharding="local" if partitioned else "gather")


lowering.register(debug_p, _lower)

call_kinds.add(debug_p, call_kinds.CallKind(_WHERE, threaded={"result_avals": (), "sharding": None}))
