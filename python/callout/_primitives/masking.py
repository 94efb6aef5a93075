# SPDX-License-Identifier: Apache-2.0
"""Evaluates a traced function so that its callbacks run only where a boolean is true; everything else is unchanged.

Under `vmap` the boolean has a value for each lane. Every callback gets it as an operand, through control flow, nested
functions, derivative rules and rematerialised parts; only callbacks use the boolean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core

from . import buffer, call, call_kinds, debug, ffi, inspections, jaxprs, lanes, tap, threaded
from .control_flow import Interpreter, Result, State, rule_of

_primitives = jex_core.primitives


def _is_of_one_lane(params: dict[str, Any]) -> bool:
    return not params["site"].whole_batch


def _acts(params: dict[str, Any]) -> bool:
    return bool(params["has_side_effect"])


def _always(_: dict[str, Any]) -> bool:
    return True


# The callbacks that get a mask, and a test of their parameters.
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

# Callbacks whose results are their operands, or a token.
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
    """Returns True if a jaxpr has a callback that a mask affects."""
    return _callbacks.in_jaxpr(jaxpr)


def masked(jaxpr: Any, live: Any, args: Sequence[Any]) -> list[Any]:
    """Evaluates a jaxpr, closed or open, with callbacks that run where `live` is true."""
    _, outs = Masker(_with_results.in_jaxpr(jaxpr)).evaluate(jaxpr, State(broadcast=live), args)
    return list(outs)


class Masker(Interpreter):
    """Evaluates one function. The interpreter's state is the boolean.

    `ends_loops`: end while loops where the boolean is false. A loop whose condition depends on a callback's results
    might never end there, because the results are zeros.
    """

    def __init__(self, ends_loops: bool):
        super().__init__()
        self.ends_loops = ends_loops

    def concerns(self, eqn: Any) -> bool:
        """Returns whether an equation is a callback that gets the boolean, or has one inside."""
        return _callbacks.in_equation(eqn) or (self.ends_loops and _loops.in_equation(eqn))

    def goes_on(self, eqn: Any, state: State, predicate: Any) -> Any:
        """Returns the predicate of a while loop, masked if `ends_loops`."""
        del eqn
        return jax.lax.bitwise_and(predicate, state.broadcast) if self.ends_loops else predicate

    def apply(self, eqn: Any, state: State, args: Sequence[Any]) -> Result:
        """Evaluates an equation. Returns an empty carried state, and the results."""
        live = state.broadcast
        kind = call_kinds.of_primitive(eqn.primitive)
        if kind is not None and not kind.has_lanes:
            kind.check_batch(eqn.params.get("ordered", True))
        if eqn.primitive is inspections.check_p:
            return (), inspections.bind_live_check(live, args, eqn.params)
        if eqn.primitive is inspections.located_nans_p:
            return (), inspections.bind_live_located_nans(live, args, eqn.params)
        if _is_callback(eqn):
            if eqn.primitive in _CALLBACKS:
                return (), lanes.bind_live(live, eqn.primitive, args, eqn.params)
            return (), lanes.bind_fewer(live, eqn.primitive, args, eqn.params["lanes"], eqn.params["params"])
        if rule_of(eqn) is None and _callbacks.in_equation(eqn):
            raise NotImplementedError(
                f"vmap of a cond or a while loop with a callback of Callout inside {eqn.primitive.name}: the callback must "
                f"run for some of the lanes only, and {eqn.primitive.name} cannot tell it which"
            )
        return super().apply(eqn, state, args)
