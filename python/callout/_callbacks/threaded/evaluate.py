# SPDX-License-Identifier: Apache-2.0
"""Evaluates a traced function with a token that goes from each of our callbacks to the next."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.extend.core

from ... import _jax_compat
from ..._primitives import call_kinds, jaxprs
from ..._primitives.effects import IoEffect, OrderedEffect, UnorderedEffect
from ..._primitives.inspections import check_p, located_nans_p
from ..._primitives.lanes import callback_of, lanes_primitive, with_token
from ..._primitives.tap import tap_p
from ..._primitives.threaded import threaded_call_p, threaded_tap_p

# (token, values) -> (next token, results)
Evaluate = Callable[["Threader", Any, Any, Sequence[Any]], tuple[Any, list[Any]]]

# What passes a token on, and how, but for the calls of call_kinds.py. control_flow.py and derivatives.py add to it.
RULES: dict[Any, Evaluate] = {}
# The jaxprs in the parameters of a primitive that has a rule.
INNER: dict[Any, Callable[[dict[str, Any]], Sequence[Any]]] = {}


def has_callbacks(eqn_or_jaxpr: Any) -> bool:
    """Returns True where a tap or a callback of ours is inside."""
    return any(isinstance(effect, (UnorderedEffect, OrderedEffect, IoEffect)) for effect in eqn_or_jaxpr.effects)


def must_not_repeat(eqn_or_jaxpr: Any) -> bool:
    """Returns True where an io callback is inside."""
    return any(isinstance(effect, IoEffect) for effect in eqn_or_jaxpr.effects)


def obstacle(jaxpr: Any) -> str | None:
    """Returns the first primitive with a callback of ours inside that cannot pass a token on; None if all can."""
    for eqn in _equations(jaxpr):
        if _rule_of(eqn.primitive) is None:
            return str(eqn.primitive.name)
        if any(map(_jax_compat.is_state_effect, eqn.effects)):
            return f"{eqn.primitive.name} with a mutable array"
        inside = INNER.get(eqn.primitive)
        for inner in inside(eqn.params) if inside else ():
            if found := obstacle(inner):
                return found
    return None


def _rule_of(primitive: Any) -> Evaluate | None:
    """Returns what passes a token on through an equation of `primitive`; None if nothing can."""
    if primitive in RULES:
        return RULES[primitive]
    for callback, evaluate in ((primitive, _call), (callback_of(primitive), _call_lanes)):
        kind = call_kinds.of_primitive(callback)
        if kind is not None:
            return functools.partial(evaluate, kind)
    return None


def _equations(jaxpr: Any) -> Iterator[Any]:
    return filter(has_callbacks, jaxprs.opened(jaxpr).eqns)


class Threader:
    """Evaluates one function. Keeps what must be one object for all its uses."""

    def __init__(self) -> None:
        self.functions: dict[int, tuple[Any, Any]] = {}

    def results(self, jaxpr: Any, token: Any, args: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Returns a jaxpr's results."""

        def each(eqn: Any, operands: list[Any]) -> Sequence[Any]:
            nonlocal token
            if not has_callbacks(eqn):
                return _jax_compat.bind_again(eqn, operands)
            rule = _rule_of(eqn.primitive)
            assert rule is not None  # obstacle() found none
            token, outs = rule(self, eqn, token, operands)
            return outs

        outs = jaxprs.evaluate(jaxpr, args, each)
        return token, outs


def _tap(_: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> tuple[Any, list[Any]]:
    return threaded_tap_p.bind(token, *args, **eqn.params), list(args)


def _call(kind: call_kinds.CallKind, _: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Any:
    token, *outs = threaded_call_p.bind(token, *args, **eqn.params, **kind.threaded, where=kind.where)
    return token, outs


def _tap_lanes(_: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> tuple[Any, list[Any]]:
    (token,) = with_token(threaded_tap_p, token, args, **eqn.params)
    return token, list(args[eqn.params["lanes"].has_mask :])


def _call_lanes(kind: call_kinds.CallKind, _: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Any:
    token, *outs = with_token(threaded_call_p, token, args, **eqn.params, **kind.threaded, where=kind.where)
    return token, outs


def _inspection(_: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Binds it as it is, with its effect: no order is promised of what only fails, or warns."""
    return token, list(_jax_compat.bind_again(eqn, args))


RULES.update({lanes_primitive(tap_p): _tap_lanes, tap_p: _tap, check_p: _inspection, located_nans_p: _inspection})


def plain(jaxpr: Any) -> Callable[..., list[Any]]:
    """Returns a closed jaxpr as a function, as it is."""
    function: Callable[..., list[Any]] = jax.extend.core.jaxpr_as_fun(jaxpr)
    return function
