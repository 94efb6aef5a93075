# SPDX-License-Identifier: Apache-2.0
"""Keeps callbacks in their loop when JAX differentiates a scan.

JAX moves loop-invariant equations out of a scan when it splits the scan's body into a forward and a backward part. A
callback that depends on nothing in the loop would then run once instead of once in each step. So before JAX splits a
body, each equation with a callback inside becomes a `callout_stay` equation, whose rules keep the equation in the loop.
The rules put the original equation into the split body; no `callout_stay` equation reaches any other rule.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jax.extend import core as jex_core

from .. import _jax_compat
from .._base.patches import Place
from . import effects, jaxprs, lanes, tap, threaded

_primitives = jex_core.primitives

stay_p = jex_core.Primitive("callout_stay")
stay_p.multiple_results = True

_KINDS = (effects.UnorderedEffect, effects.OrderedEffect, effects.IoEffect, effects.ProgressEffect)
# The callbacks of `callout.threaded` have no effect. Their primitives identify them.
_THREADED = {
    each for one in (threaded.threaded_tap_p, threaded.threaded_call_p) for each in (one, lanes.lanes_primitive(one))
}


def _stays(eqn: Any) -> bool:
    return eqn.primitive in _THREADED or any(isinstance(effect, _KINDS) for effect in eqn.effects)


_callbacks = jaxprs.Search(_stays)


def _staying(jaxpr: Any) -> Any:
    """Returns a jaxpr, closed or open, with `callout_stay` equations in the place of equations with callbacks."""
    inner = jaxprs.opened(jaxpr)
    changed = inner.replace(eqns=[_staying_equation(eqn) for eqn in inner.eqns])
    return changed if inner is jaxpr else jaxpr.replace(jaxpr=changed)


def _staying_equation(eqn: Any) -> Any:
    if not _callbacks.in_equation(eqn):
        return eqn
    if eqn.primitive is _primitives.jit_p:  # JAX splits the inner function; its other equations may leave the loop
        return eqn.replace(params={**eqn.params, "jaxpr": _staying(eqn.params["jaxpr"])})
    if any(map(_jax_compat.is_state_effect, eqn.effects)):  # JAX keeps equations with a mutable array in the loop
        return eqn
    return _stay(eqn)


def _stay(eqn: Any) -> Any:
    return eqn.replace(primitive=stay_p, params={"eqn": eqn})


@stay_p.def_effectful_abstract_eval
def _abstract_eval(*_: Any, eqn: Any) -> tuple[list[Any], set[Any]]:
    return [var.aval for var in eqn.outvars], eqn.effects


def _partial_eval(trace: Any, *tracers: Any, eqn: Any) -> Sequence[Any]:
    outs = _jax_compat.stage(trace, tracers, eqn)
    # A tap returns its operands, so that the loop need not store its results for each step.
    return tracers if eqn.primitive is tap.tap_p else outs


_jax_compat.register_partial_eval_rule(stay_p, _partial_eval)


def _split(policy: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Splits a rematerialised equation like JAX splits the original, and keeps the known part in the loop."""
    original = eqn.params["eqn"].replace(invars=eqn.invars, outvars=eqn.outvars)
    rule = _remat_rules.get(original.primitive)
    if rule is None:
        saved = functools.partial(_is_saved, policy, original)
        known, *rest = _jax_compat.split_for_remat(original, unknown_in, instantiated_in, saved)
    else:
        known, *rest = rule(policy, unknown_in, instantiated_in, original)
    return known and _stay(known), *rest


def _is_saved(policy: Any, eqn: Any) -> bool:
    """Returns JAX's decision whether to save the results of an equation whose primitive has no rule."""
    return bool(eqn.effects) or _jax_compat.keeps(
        policy, eqn.primitive, *[var.aval for var in eqn.invars], **eqn.params
    )


_remat_rules = _jax_compat.remat_rules()
_remat_rules[stay_p] = _split


def _hoist(original: Any, jaxpr: Any, *others: Any) -> Any:
    return original(_staying(jaxpr), *others) if _callbacks.in_jaxpr(jaxpr) else NotImplemented


def _split_scan(original: Any, policy: Any, unknown_in: Sequence[bool], instantiated_in: Any, eqn: Any) -> Any:
    jaxpr = eqn.params["jaxpr"]
    if not _callbacks.in_jaxpr(jaxpr):
        return NotImplemented
    return original(policy, unknown_in, instantiated_in, eqn.replace(params={**eqn.params, "jaxpr": _staying(jaxpr)}))


def hooked() -> list[Place]:
    """Returns the places of JAX's functions, which still apply to loops without callbacks of Callout."""
    if not _jax_compat.can_stage:
        return []
    places = [Place(holder, name, before=_hoist) for holder, name in _jax_compat.hoisting_functions()]
    if _primitives.scan_p in _remat_rules:
        places.append(Place(_remat_rules, _primitives.scan_p, before=_split_scan))
    return places
