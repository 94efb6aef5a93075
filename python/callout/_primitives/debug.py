# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `debug_callback` and `debug_print`: it has no results, and survives every transformation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jax.extend import core as jex_core
from jax.interpreters import ad, mlir

from .. import _jax_compat
from .._targets.target import Target
from . import call_kinds, context, effects, lowering
from .call import evaluate, lower_call
from .eager import def_eager

_WHERE = "callout.debug_callback"

debug_p = jex_core.Primitive("callout_debug")
debug_p.multiple_results = True


@debug_p.def_effectful_abstract_eval
def _abstract_eval(*_: Any, ordered: bool, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], effects.observing(ordered)


def_eager(debug_p, functools.partial(evaluate, debug_p))


def _jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
    return debug_p.bind(*primals, **params), []


ad.primitive_jvps[debug_p] = _jvp


def _transpose(_: Any, *args: Any, **__: Any) -> list[None]:
    return [None] * len(args)


ad.primitive_transposes[debug_p] = _transpose


def partial_eval(saveable: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Splits for remat like JAX's debug callbacks: the backward pass calls again, unless the policy saves the callback."""
    missing = _jax_compat.not_instantiated(eqn, instantiated_in)
    if any(unknown_in):
        return None, eqn, [], [], missing
    if saveable(eqn.primitive, *[var.aval for var in eqn.invars], **eqn.params) and not all(instantiated_in):
        return eqn, None, [], [], []
    return eqn, eqn, [], [], missing


def kept(is_saveable: bool, _: Sequence[Any]) -> list[Any] | None:
    """Returns the saved results, which are none, or None if the backward pass must call again."""
    return [] if is_saveable else None


_jax_compat.register_remat_rule(debug_p, partial_eval, kept)


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, target: Target, ordered: bool, partitioned: bool) -> list[Any]:
    if not partitioned and context.automatic_axes(ctx):
        again = functools.partial(debug_p.bind, target=target, ordered=ordered, partitioned=partitioned)
        lowering.bind_on_one_device(ctx, _WHERE, again, args, target.device_index, ordered)
        return []
    return lower_call(ctx, args, _WHERE, target, ordered=ordered, sharding="local" if partitioned else "gather")


lowering.register(debug_p, _lower)

call_kinds.add(debug_p, call_kinds.CallKind(_WHERE, threaded={"result_avals": (), "sharding": None}))
