# SPDX-License-Identifier: Apache-2.0
"""Evaluates a traced function with a token that goes from each of our callbacks to the next.

Control flow and nested functions pass a token on: the token goes in front of what they carry, take and return.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core

from ... import _jax_compat
from ..._base import patches
from ..._primitives import call_kinds, jaxprs
from ..._primitives.effects import IoEffect, OrderedEffect, UnorderedEffect
from ..._primitives.inspections import check_p, located_nans_p
from ..._primitives.lanes import callback_of, lanes_primitive, with_token
from ..._primitives.tap import tap_p
from ..._primitives.threaded import threaded_call_p, threaded_tap_p
from ..._primitives.token import once

# (token, values) -> (next token, results)
Evaluate = Callable[["Threader", Any, Any, Sequence[Any]], tuple[Any, list[Any]]]

# The primitives that pass a token on, each with its rule. call_kinds.py has the calls; transform.py adds more rules.
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


_primitives = jax.extend.core.primitives
Outs = tuple[Any, list[Any]]


def _scan(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    outs: Outs = jaxprs.scan(
        eqn, args, token, lambda token, values: threader.results(eqn.params["jaxpr"], token, values)
    )
    return outs


def _while(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    params = eqn.params
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = args[:num_cond], args[num_cond : num_cond + num_body]
    init = list(args[num_cond + num_body :])
    condition, acts = params["cond_jaxpr"], must_not_repeat(eqn) and not patches.is_installed("batching")

    def decide(predicate: Any) -> Any:
        return once(predicate, "a while loop with an io callback, over its condition") if acts else predicate

    def body(token: Any, values: Sequence[Any]) -> Outs:
        return threader.results(params["body_jaxpr"], token, [*body_consts, *values])

    (kind,) = condition.out_avals
    if not has_callbacks(condition) and not kind.shape:
        check = plain(condition)
        return jax.lax.while_loop(
            lambda carry: decide(check(*cond_consts, *carry[1])[0]), lambda carry: body(*carry), (token, init)
        )

    def evaluated(token: Any, values: list[Any]) -> tuple[Any, Any, list[Any]]:
        token, (predicate,) = threader.results(condition, token, [*cond_consts, *values])
        return token, predicate, values

    def step(carry: tuple[Any, Any, list[Any]]) -> tuple[Any, Any, list[Any]]:
        token, predicate, values = carry
        token, changed = body(token, values)
        return evaluated(token, list(map(functools.partial(_where, predicate), changed, values)))

    # The condition's callbacks cannot give a token back from where it stands: it moves into the body, its result into the
    # carry. It runs once an iteration, as before.
    token, first, values = evaluated(token, init)
    # It stands before the loop, and nothing says for which lanes.
    first = once(first, "a while loop with callbacks in its condition, over that")
    token, _, values = jax.lax.while_loop(
        lambda carry: decide(carry[1].any() if kind.shape else carry[1]), step, (token, first, values)
    )
    return token, values


def _where(predicate: Any, changed: Any, value: Any) -> Any:
    """Chooses `changed` where a loop goes on, which `vmap` has made one of several, or will.

    Loops whose condition is false have finished.
    """
    if not predicate.ndim:
        return jax.lax.select(predicate, changed, value)
    wide = jax.lax.broadcast_in_dim(predicate, changed.shape, range(predicate.ndim))
    return jax.lax.select(wide, changed, value)


def _cond(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    def branch(jaxpr: Any) -> Callable[..., Outs]:
        return lambda token, *values: threader.results(jaxpr, token, values)

    has_platforms = eqn.params.get("branches_platforms") is not None
    index = args[0] if has_platforms else _decided(eqn, args[0])
    outs: Outs = jaxprs.choose(eqn, index, branch, [token], args[1:])
    return outs


def _decided(eqn: Any, index: Any) -> Any:
    """Returns the index of the branch, which `vmap` must not make one of each lane where that changes what is called."""
    # Each branch is judged by its own equations, since JAX gives every branch the effects of all.
    acting = sum(any(map(has_callbacks, jaxprs.opened(jaxpr).eqns)) for jaxpr in eqn.params["branches"])
    if not patches.is_installed("batching"):
        what = "an io callback" if must_not_repeat(eqn) else "callbacks"
        return once(index, f"a cond with {what}, over its predicate")
    if acting > 1:  # with all branches run, nothing says which one first
        return once(index, "a cond with callbacks in several branches, over its predicate")
    return index


def _jit(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    params = eqn.params
    key = id(params["jaxpr"])
    if key not in threader.functions:  # one function, so that JAX traces and compiles it once
        threader.functions[key] = params["jaxpr"], jaxprs.jitted(eqn, threader.results)
    token, outs = threader.functions[key][1](token, *jaxprs.constrained(args, params["in_shardings"]))
    return token, jaxprs.constrained(outs, params["out_shardings"])


def _closed_call(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    return threader.results(eqn.params["call_jaxpr"], token, args)


RULES.update(
    {
        _primitives.scan_p: _scan,
        _primitives.while_p: _while,
        _primitives.cond_p: _cond,
        _primitives.jit_p: _jit,
        _primitives.closed_call_p: _closed_call,
    }
)
INNER.update(
    {
        _primitives.scan_p: lambda params: [params["jaxpr"]],
        _primitives.while_p: lambda params: [params["cond_jaxpr"], params["body_jaxpr"]],
        _primitives.cond_p: lambda params: params["branches"],
        _primitives.jit_p: lambda params: [params["jaxpr"]],
        _primitives.closed_call_p: lambda params: [params["call_jaxpr"]],
    }
)
