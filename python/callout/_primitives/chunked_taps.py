# SPDX-License-Identifier: Apache-2.0
"""Lowers loops with taps that have a flush interval, so that the taps of many steps cross to the host at once.

    while steps are left:           while chunks are left:
      body, taps              ->      while steps are left in this chunk:
                                        body; each tap writes a row of its buffer
                                      each tap sends the rows that are filled
                                      a clock says how many steps the next chunk may have

1. `Plan` (chunk_plan.py) finds the taps of a loop's body, in nested functions, conds and scans, too, and the most
   records that each can send in one step. A tap gets a buffer of so many rows that at least one step fits. A tap for
   which none fits is left to the loop that it is in. A while loop inside the body, whose steps nobody knows, stops for
   a moment and sends all rows when a row for its next step is missing, or when its own clock says so.
2. `_Writer` evaluates the body. Its state is a row number and the buffers of each tap; the rules of control_flow.py
   carry the state to where the taps are. A check that is about to fail the program first sends the rows.
3. `_ChunkedLoop` is the loop over chunks. Flags and host values that each step would read are read once in a chunk.

The rows of a tap are sent by the same tap, whose site then has rows: the core sends each as a record of its own
(src/core/delivery/tap_rows.h), so receivers see no difference. The taps of a loop on one device are a hand-over: their
rows are merged in the order in which the program wrote them. Over several devices, and by JAX's callbacks, records of
different taps arrive chunk by chunk. An ordered tap collects only where nothing else is ordered.

The devices of a jit must agree on the length of a chunk, so one of them asks the clock for all. Inside a shard_map each
device asks its own. Where several processes, or JAX's callbacks on several devices, run a loop, and without the C++
core, the length does not depend on time.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.mlir import ir
from jax.interpreters import mlir

from .. import _jax_compat
from .._base import patches
from .._base.native_platforms import PLATFORMS, REFUSED
from . import context, jaxprs, loop_lowering, lowering
from .chunk_clock import CLOCK_CHUNK, ask_clock
from .chunk_plan import Plan, Tap, count_ordered, taps
from .control_flow import Interpreter, Result, State, called, where_live
from .inspections import check_p
from .loop_counters import find_counter
from .read import read_p
from .recipes import CONSTANT, Recipe, Source, find_recipe
from .tap import check_sent, tap_p
from .threaded import threaded_tap_p
from .token import first_token, tie

_MOST_UNTIMED = 64  # steps in a chunk without a clock


def ensure() -> None:
    """Installs what lowers such loops. Called when a tap with a flush interval is traced."""
    patches.ensure("loop_lowering")


@dataclasses.dataclass(frozen=True)
class _Spread:
    """Marks values as varying over the axes of a shard_map over which anything in the loop varies."""

    axes: frozenset[Any]

    def __call__(self, value: Any) -> Any:
        missing = self.axes - _jax_compat.varying_axes(jax.typeof(value))
        return _jax_compat.varying(value, _jax_compat.array_type((), value.dtype, missing))


class _Carried(NamedTuple):
    """The state that a body carries beside its values.

    rows: (number of the next row, buffers) for each tap. Regular taps have no number: their row is the number of the
        step in the chunk, which is the broadcast part of the interpreter's state. Where rows have turns, the last
        buffer has them.
    guards: (steps that are left, state of the clock) for each while loop that watches the room.
    turn: how many rows all taps have written; None if rows have no turns.
    """

    rows: Any
    guards: Any
    turn: Any


@dataclasses.dataclass(frozen=True)
class _Sender:
    """Sends rows. Taps of one hand-over run one after the other, by a token; `number` is the first hand-over's number."""

    plan: Plan
    spread: _Spread
    hand_overs: tuple[tuple[int, ...], ...]
    has_turns: bool
    number: int

    def send(self, rows: Any, steps: Any = None) -> Any:
        """Sends the rows of all taps; regular taps have `steps` rows. Returns a token to tie to a value: u32[]."""
        of_tap = dict(zip(self.plan.order, rows, strict=True))
        token = first_token()
        for place, keys in enumerate(self.hand_overs):
            for following, key in zip(reversed(range(len(keys))), keys, strict=True):
                count, filled = of_tap[key]
                params = dict(self.plan.taps[key].params)
                number = (self.number + place, following) if len(keys) > 1 else (0, 0)
                site = dataclasses.replace(params["site"], has_rows=True, has_turns=self.has_turns, hand_over=number)
                arrays, turns = (filled[:-1], filled[-1:]) if self.has_turns else (filled, ())
                operands = [*arrays, self.spread(steps) if count is None else count, *turns]
                if len(keys) > 1:
                    token = threaded_tap_p.bind(token, *operands, **{**params, "site": site})
                else:
                    tap_p.bind(*operands, **{**params, "site": site})
        return token

    def check(self) -> None:
        """Lets sinks check the values."""
        for tap in self.plan.taps.values():
            site = tap.params["site"]
            check_sent(tap.avals[: len(tap.avals) - site.has_step], tap.params["target"], site)


class _Writer(Interpreter):
    """Evaluates a body with taps that write rows. The carried state is a `_Carried`."""

    def __init__(self, plan: Plan, sender: _Sender, clock: _Clock, known: Known):
        super().__init__()
        self.known = known
        self.plan = plan
        self.sender = sender
        self.spread = sender.spread
        self.clock = clock

    def concerns(self, eqn: Any) -> bool:
        return id(eqn) in self.plan.concerned

    def apply(self, eqn: Any, state: State, args: Sequence[Any]) -> Result:
        key = id(eqn)
        if key in self.plan.taps:
            return self._write(state.carried, self.plan.order.index(key), args, state.broadcast), list(args)
        if key in self.known:
            return state.carried, self.known[key]
        if not self.concerns(eqn):
            return super().apply(eqn, state, args)
        if key in self.plan.expanded:
            carried, _ = self.evaluate(self.plan.expanded[key], state, args)
            return carried, list(args[len(args) - len(eqn.outvars) :])
        if eqn.primitive is check_p:
            carried, fails = self._send_before(args[0], state.carried)
            return carried, _jax_compat.bind_again(eqn, [fails, *args[1:]])
        if key in self.plan.guards:
            return self._guarded(eqn, state, args)
        return super().apply(eqn, state, args)

    def _send_before(self, fails: Any, carried: _Carried) -> tuple[_Carried, Any]:
        """Sends the rows if a check fails. Returns the state, and the check's predicate to be known after the rows.

        No rows are left afterwards: a GPU may go on with later steps before it hears of the failure.
        """

        def send(carried: _Carried) -> Any:
            return tie(self.sender.send(carried.rows), jax.numpy.uint32(1)), *self._no_rows(carried)

        def keep(carried: _Carried) -> Any:
            return jax.numpy.uint32(0), _counts(carried), carried.turn

        any_fails = lax.reduce_or(fails, tuple(range(fails.ndim))) if fails.ndim else fails
        sent, counts, turn = lax.cond(any_fails, send, keep, carried)
        fails = lax.bitwise_and(fails, lax.lt(sent, np.uint32(2)))  # always `fails`
        return _with_counts(carried, counts, turn), fails

    def _no_rows(self, carried: _Carried) -> tuple[list[Any], Any]:
        none = self.spread(jax.numpy.uint32(0))
        return [none for _ in carried.rows], None if carried.turn is None else none

    def _write(self, carried: _Carried, place: int, args: Sequence[Any], step: Any) -> _Carried:
        rows, _, turn = carried
        count, buffers = rows[place]
        row = step if count is None else count
        written = []
        for buffer, arg in zip(buffers, [*args, *(() if turn is None else (turn,))], strict=True):
            value = self.spread(jax.numpy.asarray(arg, buffer.dtype))
            one = lax.broadcast_in_dim(value, (1, *value.shape), range(1, buffer.ndim))
            written.append(lax.dynamic_update_slice(buffer, one, (row, *[np.uint32(0)] * value.ndim)))
        count = None if count is None else count + np.uint32(1)
        rows = [*rows[:place], (count, written), *rows[place + 1 :]]
        return carried._replace(rows=rows, turn=None if turn is None else turn + np.uint32(1))

    def _guarded(self, eqn: Any, state: State, args: Sequence[Any]) -> Result:
        """Evaluates a while loop that sends the rows when there is no room for another step, or no step is left."""
        params, place = eqn.params, self.plan.guards.index(id(eqn))
        num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts = args[:num_cond], args[num_cond : num_cond + num_body]

        def predicate(values: Sequence[Any]) -> Any:
            return jaxprs.evaluate(params["cond_jaxpr"], [*cond_consts, *values], _jax_compat.bind_again)[0]

        def has_room(carried: Any) -> Any:
            room = lax.gt(carried.guards[place][0], np.uint32(0))
            for key, (count, _) in zip(self.plan.order, carried.rows, strict=True):
                tap = self.plan.taps[key]
                if tap.guard == id(eqn):
                    room = lax.bitwise_and(room, lax.le(count, np.uint32(tap.rows() - tap.most)))
            return room

        def step(carry: Any) -> Any:
            carried, values = carry
            carried, outs = self.evaluate(
                params["body_jaxpr"], state._replace(carried=carried), [*body_consts, *values]
            )
            left, clock = carried.guards[place]
            return _with_guard(carried, place, (left - np.uint32(1), clock)), list(outs)

        def until_full(carry: Any) -> Any:
            carried, values = lax.while_loop(
                lambda carry: lax.bitwise_and(predicate(carry[1]), has_room(carry[0])), step, carry
            )
            return self._emptied(carried, place, has_room(carried)), values

        init = (state.carried, list(args[num_cond + num_body :]))
        result: Result = lax.while_loop(lambda carry: predicate(carry[1]), until_full, init)
        return result

    def _emptied(self, carried: Any, place: int, has_room: Any) -> Any:
        """Returns the state after the rows have been sent, unless there is room."""

        def send(carried: _Carried) -> Any:
            left, clock = carried.guards[place]
            steps = tie(self.sender.send(carried.rows), clock[CLOCK_CHUNK] - left)
            clock = self.clock.next(clock, steps)
            return *self._no_rows(carried), clock[CLOCK_CHUNK], clock

        def keep(carried: _Carried) -> Any:
            return _counts(carried), carried.turn, *carried.guards[place]

        counts, turn, left, clock = lax.cond(has_room, keep, send, carried)
        return _with_guard(_with_counts(carried, counts, turn), place, (left, clock))


def _counts(carried: _Carried) -> list[Any]:
    return [count for count, _ in carried.rows]


def _with_counts(carried: _Carried, counts: Sequence[Any], turn: Any) -> _Carried:
    rows = [(count, filled) for count, (_, filled) in zip(counts, carried.rows, strict=True)]
    return carried._replace(rows=rows, turn=turn)


def _with_guard(carried: _Carried, place: int, guard: Any) -> _Carried:
    return carried._replace(guards=[*carried.guards[:place], guard, *carried.guards[place + 1 :]])


Known = dict[int, list[Any]]  # the results of equations, by their identity


def _reads(closed: Any, num_consts: int) -> dict[int, tuple[Any, Recipe]]:
    """Returns the reads of host objects that are constants of a loop's function: (equation, recipe of its operand)."""
    found: dict[int, tuple[Any, Recipe]] = {}
    several: set[int] = set()

    def find(jaxpr: Any, known: dict[Any, Source]) -> None:
        for eqn in jaxpr.eqns:
            inner = called(eqn)
            if inner is not None:
                pairs = zip(eqn.invars, jaxprs.opened(inner).invars, strict=True)
                find(jaxprs.opened(inner), {var: known[atom] for atom, var in pairs if _is_known(atom, known)})
            elif eqn.primitive is read_p and (recipe := find_recipe(jaxpr, eqn.invars[0], known)) is not None:
                if id(eqn) in found:  # in a function that is called more than once, maybe with other objects
                    several.add(id(eqn))
                found[id(eqn)] = eqn, recipe

    jaxpr = jaxprs.opened(closed)
    find(jaxpr, {var: (CONSTANT, place) for place, var in enumerate(jaxpr.invars[:num_consts])})
    return {key: read for key, read in found.items() if key not in several}


def _constant(consts: Sequence[Any], source: Source) -> Any:
    return consts[source[1]]


def _is_known(atom: Any, known: dict[Any, Source]) -> bool:
    return _jax_compat.is_variable(atom) and atom in known


@dataclasses.dataclass(frozen=True)
class _Clock:
    """Chooses the length of chunks. Without a clock they have 1, 2, 4, ... steps, up to `most`."""

    interval_us: int
    is_timed: bool
    most: int

    def first(self) -> Any:
        """Returns the state before the first chunk, which has one step."""
        state = jax.numpy.asarray(np.array([0] * CLOCK_CHUNK + [1], np.uint32))
        return ask_clock(state, 0) if self.is_timed else state

    def next(self, state: Any, steps: Any) -> Any:
        """Returns the state after a chunk of `steps` steps (u32)."""
        if not self.is_timed:
            steps = lax.min(state[CLOCK_CHUNK] * np.uint32(2), np.uint32(self.most))
        state = lax.dynamic_update_slice(state, steps[None], (CLOCK_CHUNK,))
        return ask_clock(state, self.interval_us) if self.is_timed else state


class _ChunkedLoop:
    """Turns a while loop with taps that collect into a loop over chunks."""

    def __init__(
        self,
        ctx: mlir.LoweringRuleContext,
        plan: Plan,
        *,
        cond_jaxpr: Any,
        body_jaxpr: Any,
        cond_nconsts: int,
        body_nconsts: int,
    ):
        self.plan = plan
        self.taps = [plan.taps[key] for key in plan.order]
        self.cond_jaxpr, self.body_jaxpr = cond_jaxpr, body_jaxpr
        self.num_consts = cond_nconsts, body_nconsts
        self.reads = [_reads(cond_jaxpr, cond_nconsts), _reads(body_jaxpr, body_nconsts)]
        self.carries_predicate = any(eqn.effects and id(eqn) not in self.reads[0] for eqn in cond_jaxpr.jaxpr.eqns)
        self.counter = find_counter(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
        self.pred_ndim = len(cond_jaxpr.out_avals[0].shape)
        interval = min(tap.params["site"].flush_interval for tap in self.taps)
        # The devices of a shard_map agree about an object by counting their reads, so they read at the same steps.
        reads_together = _jax_compat.manual_devices(ctx) > 1 and any(self.reads)
        is_timed = _has_clock(ctx) and not reads_together
        self.most_steps = plan.steps() if is_timed else min(plan.steps(), _MOST_UNTIMED)
        self.clock = _Clock(max(1, min(int(interval * 1e6), 2**32 - 1)), is_timed, self.most_steps)
        avals = [*body_jaxpr.in_avals, *(aval for tap in self.taps for aval in tap.avals)]
        axes: frozenset[Any] = frozenset().union(*map(_jax_compat.varying_axes, avals))
        self.spread = _Spread(axes)
        self.are_regular = plan.are_regular and self.counter is not None
        joins = context.num_devices(ctx) == 1 and lowering.platform_of_fallback(ctx) is None
        hand_overs = plan.hand_overs() if joins else [[key] for key in plan.order]
        are_some = any(len(keys) > 1 for keys in hand_overs)
        self.sender = _Sender(
            plan,
            self.spread,
            tuple(map(tuple, hand_overs)),
            are_some and not self.are_regular,
            _take_numbers(ctx, len(hand_overs)) if are_some else 0,
        )
        self.sender.check()

    def run(self, *args: Any) -> list[Any]:
        """Computes the loop's results; a function to trace."""
        num_cond, num_body = self.num_consts
        self.cond_consts, self.body_consts = args[:num_cond], args[num_cond : num_cond + num_body]
        try:
            return self._loop(list(args[num_cond + num_body :]))
        finally:
            del self.cond_consts, self.body_consts  # no tracer outlives its trace

    def _loop(self, init: list[Any]) -> list[Any]:
        pred = self._predicate(init)
        kept = pred if self.carries_predicate else ()
        clock = self.clock.first()
        guards = [(clock[CLOCK_CHUNK], clock) for clock in (self.clock.first() for _ in self.plan.guards)]
        buffers = [self._empty(tap) for tap in self.taps]
        carry = (self._any(pred), clock, kept, init, buffers, guards)
        values: list[Any] = lax.while_loop(lambda carry: carry[0], self._chunk, carry)[3]
        return values

    def _empty(self, tap: Tap) -> list[Any]:
        shapes = [(aval.shape, aval.dtype) for aval in tap.avals]
        if self.sender.has_turns:
            shapes.append(((), np.dtype(np.uint32)))
        return [self.spread(lax.full((tap.rows(), *shape), 0, dtype)) for shape, dtype in shapes]

    def _predicate(self, values: Sequence[Any], known: Known | None = None) -> Any:
        def each(eqn: Any, operands: list[Any]) -> Sequence[Any]:
            answer = (known or {}).get(id(eqn))
            return _jax_compat.bind_again(eqn, operands) if answer is None else answer

        (pred,) = jaxprs.evaluate(self.cond_jaxpr, [*self.cond_consts, *values], each)
        return pred

    def _read(self) -> Known:
        """Reads the host objects that each step would read."""
        known: Known = {}
        for reads, consts in zip(self.reads, (self.cond_consts, self.body_consts), strict=True):
            for key, (eqn, recipe) in reads.items():
                words = recipe.make(functools.partial(_constant, consts))
                known[key] = _jax_compat.bind_again(eqn, [words])
        return known

    def _any(self, pred: Any) -> Any:
        return lax.reduce_or(pred, tuple(range(pred.ndim))) if self.pred_ndim else pred

    def _chunk(self, carry: Any) -> Any:
        """Traces one iteration of the outer loop."""
        _, clock, kept, values, buffers, guards = carry
        limit = lax.convert_element_type(lax.min(clock[CLOCK_CHUNK], np.uint32(self.most_steps)), np.int32)
        begin: Any = None if self.counter is None else values[self.counter.place]
        end: Any = None if self.counter is None else self.counter.exact_end(values, limit)

        known = self._read()

        def is_left(inner: Any) -> Any:
            if self.counter is not None:
                return lax.lt(inner[2][self.counter.place], end)
            pred = inner[1] if self.carries_predicate else self._predicate(inner[2], known)
            return lax.bitwise_and(lax.lt(inner[0], limit), self._any(pred))

        zero = self.spread(jax.numpy.uint32(0))
        rows = [(None if self.are_regular else zero, filled) for filled in buffers]
        carried = _Carried(rows, guards, zero if self.sender.has_turns else None)
        inner: Any = (() if self.counter else np.int32(0), kept, values, carried)
        steps, kept, values, carried = lax.while_loop(is_left, functools.partial(self._step, known, begin), inner)
        if self.counter is not None:
            steps = lax.sub(values[self.counter.place], begin)
        steps = lax.convert_element_type(steps, np.uint32)
        clock = self.clock.next(clock, tie(self.sender.send(carried.rows, steps), steps))
        going = self._any(kept if self.carries_predicate else self._predicate(values))
        return going, clock, kept, values, [filled for _, filled in carried.rows], carried.guards

    def _step(self, known: Known, begin: Any, inner: Any) -> Any:
        """Traces one iteration of the inner loop. `known`: what is read once in a chunk. `begin`: the counter's first."""
        count, pred, values, carried = inner
        number: Any = ()
        if self.counter is not None:
            number = self.spread(lax.convert_element_type(lax.sub(values[self.counter.place], begin), np.uint32))
        if self.pred_ndim and not self.carries_predicate:
            pred = self._predicate(values, known)
        carried, outs = _Writer(self.plan, self.sender, self.clock, known).evaluate(
            self.body_jaxpr, State(carried=carried, broadcast=number), [*self.body_consts, *values]
        )
        if self.pred_ndim:  # lanes of a vmap that have finished stay as they are
            outs = [where_live(pred, new, old) for new, old in zip(outs, values, strict=True)]
        kept = self._predicate(outs, known) if self.carries_predicate else ()
        return () if self.counter else count + np.int32(1), kept, list(outs), carried


_HAND_OVERS = "callout.hand_overs"  # a module's attribute: the last number of a hand-over


def _take_numbers(ctx: mlir.LoweringRuleContext, count: int) -> int:
    """Returns the first of `count` numbers that no other hand-over of the program has."""
    attributes = ctx.module_context.module.operation.attributes
    last = ir.IntegerAttr(attributes[_HAND_OVERS]).value if _HAND_OVERS in attributes else 0
    attributes[_HAND_OVERS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), last + count)
    return last + 1


def _has_clock(ctx: mlir.LoweringRuleContext) -> bool:
    """Returns whether a clock is asked. In a jit over several devices one device asks it for all."""
    is_alone = context.num_devices(ctx) == 1 or lowering.platform_of_fallback(ctx) is None
    has_core = bool(PLATFORMS or REFUSED)
    return has_core and is_alone and jax.process_count() == 1 and not context.automatic_axes(ctx)


def _lower_while(_original: Any, ctx: mlir.LoweringRuleContext, *args: Any, **params: Any) -> Any:
    body = params["body_jaxpr"]
    if not taps.in_jaxpr(body):
        return NotImplemented
    plan = Plan(body, allows_ordered=count_ordered(body) == 1)
    if not plan.taps:
        return NotImplemented
    return mlir.lower_fun(_ChunkedLoop(ctx, plan, **params).run, multiple_results=True)(ctx, *args)


loop_lowering.add(None, _lower_while)
