# SPDX-License-Identifier: Apache-2.0
"""Evaluates a traced function so that its callbacks run only where a boolean is true: the rest of it stays as it is.

Under `vmap` the boolean has a value for each lane. It goes to every callback as an operand, through control flow, nested
functions, derivative rules and rematerialised parts; nothing but callbacks looks at it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core

from .. import _jax_compat
from . import buffer, call, call_kinds, debug, ffi, inspections, jaxprs, lanes, tap, threaded

_primitives = jax.extend.core.primitives
Outs = Sequence[Any]


def _is_of_one_lane(params: dict[str, Any]) -> bool:
    return not params["site"].whole_batch


def _acts(params: dict[str, Any]) -> bool:
    return bool(params["has_side_effect"])


def _always(_: dict[str, Any]) -> bool:
    return True


# The callbacks that see a mask, and in which cases.
_CALLBACKS: dict[Any, Callable[[dict[str, Any]], bool]] = {
    tap.tap_p: _is_of_one_lane,
    debug.debug_p: _always,
    call.io_p: _always,
    buffer.buffer_p: _acts,
    ffi.ffi_p: _acts,
    threaded.threaded_tap_p: _is_of_one_lane,
    threaded.threaded_call_p: _always,
    inspections.check_p: _always,
    inspections.located_nans_p: _always,
}

# Those whose results are their operands, or a token.
_WITHOUT_RESULTS = {each for one in (tap.tap_p, threaded.threaded_tap_p) for each in (one, lanes.lanes_primitive(one))}


def _is_callback(eqn: Any) -> bool:
    sees = _CALLBACKS.get(eqn.primitive)
    return sees(eqn.params) if sees is not None else lanes.callback_of(eqn.primitive) is not None


def _answers(eqn: Any) -> bool:
    return _is_callback(eqn) and len(eqn.outvars) > 0 and eqn.primitive not in _WITHOUT_RESULTS


def _is_loop(eqn: Any) -> bool:
    return eqn.primitive is _primitives.while_p


_callbacks, _with_results, _loops = map(jaxprs.Search, (_is_callback, _answers, _is_loop))


def has_callbacks(jaxpr: Any) -> bool:
    """Returns True where there is a callback that a mask makes a difference to."""
    return _callbacks.in_jaxpr(jaxpr)


def masked(jaxpr: Any, live: Any, args: Sequence[Any]) -> list[Any]:
    """Returns the results of a jaxpr, closed or open, whose callbacks run where `live` is true."""
    return Masker(_with_results.in_jaxpr(jaxpr)).jaxpr(jaxpr, live, args)


@dataclasses.dataclass(frozen=True)
class Masker:
    """Evaluates one function.

    `ends_loops`: while loops do not run where `live` is false. With callbacks that have results, they might not end there:
    they would go by zeros.
    """

    ends_loops: bool

    def jaxpr(self, jaxpr: Any, live: Any, args: Sequence[Any]) -> list[Any]:
        """Returns a jaxpr's results."""
        return jaxprs.evaluate(jaxpr, args, lambda eqn, operands: self._results(eqn, live, operands))

    def concerns(self, jaxpr: Any) -> bool:
        """Tells whether anything in a jaxpr looks at `live`."""
        return _callbacks.in_jaxpr(jaxpr) or (self.ends_loops and _loops.in_jaxpr(jaxpr))

    def _results(self, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
        kind = call_kinds.of_primitive(eqn.primitive)
        if kind is not None and not kind.has_lanes:
            kind.check_batch(eqn.params.get("ordered", True))
        if eqn.primitive is inspections.check_p:
            return inspections.bind_live_check(live, args, eqn.params)
        if eqn.primitive is inspections.located_nans_p:
            return inspections.bind_live_located_nans(live, args, eqn.params)
        if _is_callback(eqn):
            if eqn.primitive in _CALLBACKS:
                return lanes.bind_live(live, eqn.primitive, args, eqn.params)
            return lanes.bind_fewer(live, eqn.primitive, args, eqn.params["lanes"], eqn.params["params"])
        has_callbacks = _callbacks.in_equation(eqn)
        rule = _RULES.get(eqn.primitive)
        if has_callbacks and rule is None:
            raise NotImplementedError(
                f"vmap of a cond or a while loop with a callback of Callout inside {eqn.primitive.name}: the callback must "
                f"run for some of the lanes only, and {eqn.primitive.name} cannot tell it which"
            )
        if rule is None or not (has_callbacks or (self.ends_loops and _loops.in_equation(eqn))):
            return _jax_compat.bind_again(eqn, args)
        return rule(self, eqn, live, args)


def _scan(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    outs: Outs = jaxprs.scan(eqn, args, (), lambda _, values: ((), masker.jaxpr(eqn.params["jaxpr"], live, values)))[1]
    return outs


def _while(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    """Binds it as it is: what a `vmap` has already made of it has a predicate for each of its lanes."""
    params = dict(eqn.params)
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    init = args[num_cond + num_body :]

    def condition(live: Any, *values: Any) -> list[Any]:
        (going,) = masker.jaxpr(eqn.params["cond_jaxpr"], live, values)
        return [jax.lax.bitwise_and(going, live) if masker.ends_loops else going]

    def body(live: Any, *values: Any) -> list[Any]:
        return masker.jaxpr(eqn.params["body_jaxpr"], live, values)

    consts = {"cond": list(args[:num_cond]), "body": list(args[num_cond : num_cond + num_body])}
    for name, function in (("cond", condition), ("body", body)):
        if masker.concerns(params[f"{name}_jaxpr"]) or (masker.ends_loops and name == "cond"):
            consts[name].insert(0, live)
            params[f"{name}_jaxpr"] = jax.make_jaxpr(function)(*consts[name], *init)
            params[f"{name}_nconsts"] += 1
    return list(eqn.primitive.bind(*consts["cond"], *consts["body"], *init, **params))


def _cond(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    def branch(jaxpr: Any) -> Callable[..., Outs]:
        return lambda live, *values: masker.jaxpr(jaxpr, live, values)

    outs: Outs = jaxprs.choose(eqn, args[0], branch, [live], args[1:])
    return outs


def _jit(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    params = eqn.params
    outs = jaxprs.jitted(eqn, masker.jaxpr)(live, *jaxprs.constrained(args, params["in_shardings"]))
    return jaxprs.constrained(outs, params["out_shardings"])


def _closed_call(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    return masker.jaxpr(eqn.params["call_jaxpr"], live, args)


def _remat(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    outs: Outs = jaxprs.rematerialized(eqn, masker.jaxpr, live, args)
    return outs


def _evaluate(masker: Masker, function: Any, live: Any, *args: Any) -> Any:
    """Evaluates `function(*args)`, whose callbacks run where `live` is true."""
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    outs = masker.jaxpr(jaxpr, live, jax.tree.leaves(args))
    return jax.tree.unflatten(jax.tree.structure(shape), outs)


def _custom_jvp(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_jvp
    def function(live: Any, *values: Any) -> Outs:
        return masker.jaxpr(eqn.params["call_jaxpr"], live, values)

    @function.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        live, *values = primals
        changes = list(tangents[1:])
        moving = [i for i, tangent in enumerate(changes) if tangent.dtype != jax.dtypes.float0]

        def both(values: Sequence[Any], moves: Sequence[Any]) -> Any:
            for i, move in zip(moving, moves, strict=True):
                changes[i] = move
            return jax.jvp(lambda *xs: _jax_compat.bind_again(eqn, xs), tuple(values), tuple(changes))

        return _evaluate(masker, both, live, values, [changes[i] for i in moving])

    return function(live, *args)


def _custom_vjp(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_vjp
    def function(live: Any, *values: Any) -> Outs:
        return masker.jaxpr(eqn.params["call_jaxpr"], live, values)

    def forward(live: Any, *values: Any) -> Any:
        # The second result is a pytree: the residuals, and the function of the cotangents.
        outs, backward = _evaluate(
            masker, lambda values: jax.vjp(lambda *xs: _jax_compat.bind_again(eqn, xs), *values), live, values
        )
        return outs, (live, backward)

    def back(kept: Any, cotangents: Any) -> Any:
        live, backward = kept
        residuals, tree = jax.tree.flatten(backward)
        return None, *_evaluate(
            masker, lambda kept, ct: jax.tree.unflatten(tree, kept)(ct), live, residuals, cotangents
        )

    function.defvjp(forward, back)
    return function(live, *args)


def _shard_map(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    return jaxprs.spread(eqn, lambda jaxpr, first, values: masker.jaxpr(jaxpr, first[0], values), [live], args)


_RULES: dict[Any, Callable[[Masker, Any, Any, Sequence[Any]], Outs]] = {
    _primitives.scan_p: _scan,
    _primitives.while_p: _while,
    _primitives.cond_p: _cond,
    _primitives.jit_p: _jit,
    _primitives.closed_call_p: _closed_call,
    _primitives.remat_p: _remat,
    _primitives.custom_jvp_call_p: _custom_jvp,
    _primitives.custom_vjp_call_p: _custom_vjp,
    **({_jax_compat.shard_map_p: _shard_map} if _jax_compat.shard_map_p is not None else {}),
}
