# SPDX-License-Identifier: Apache-2.0
"""Compiles loops with a progress bar by replacing JAX's lowering rules of scan and while for bodies with a marker.

    while steps are left:           while chunks are left:
      body, marker            ->      while steps are left in this chunk:
                                        body
                                      next chunk's length; message to the bars

A condition around a message in each step would keep XLA from compiling a small loop into one function. So the inner
loop has the body alone, and a step costs as much as without a bar. Its operations are the same, but XLA may fuse and
vectorise them differently, so that the last bit of results differs for rare bodies.

The first chunk has no steps, so that bars appear at the start. On one device, and where each device runs a loop of its
own, a clock determines the length of the next chunk. In a loop over several devices all must agree on the length, so it
is fixed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.interpreters import mlir

from .. import _jax_compat
from .._primitives import context, loop_lowering
from .._primitives.chunk_clock import CLOCK_CHUNK, ask_clock, has_clock
from .._primitives.control_flow import where_live
from .._primitives.loop_counters import find_counter
from .._primitives.recipes import CONSTANT, STACK, Recipe, Source
from ._bars import FIRST, LAST
from ._bodies import Found, evaluate, find, with_marks
from ._marker import Mark, has_marks, send
from ._settings import Settings

_UPDATES = 1000  # of a loop that has a known length and no clock
_MOST_STEPS = 2**31 - 1  # in a chunk, because the inner loop counts them in an int32
_MOST_UNTIMED = 64  # steps in a chunk of a loop of unknown length without a clock


def _lower_scan(original: Any, ctx: mlir.LoweringRuleContext, *args: Any, **params: Any) -> Any:
    """Adds the scan's length to the markers, then lowers the scan by JAX's rule to a while loop that has the markers."""
    if not has_marks(params["jaxpr"]):
        return NotImplemented
    length, unroll = params["length"], params["unroll"]
    trips, rest = divmod(length, unroll) if unroll else (0, length)
    is_loop = trips > 0 and (unroll == 1 or trips > 1 or rest > 0)  # otherwise JAX emits one step after the other

    def tell(mark: Mark) -> Mark:
        marked = dataclasses.replace(mark, length=length, reverse=params["reverse"])
        return dataclasses.replace(marked, unroll=unroll, rest=rest, is_counted=True) if is_loop else marked

    params["jaxpr"] = with_marks(params["jaxpr"], tell)
    return original(ctx, *args, **params)


def _lower_while(_original: Any, ctx: mlir.LoweringRuleContext, *args: Any, **params: Any) -> Any:
    found = find(params["body_jaxpr"], params["body_nconsts"]) if has_marks(params["body_jaxpr"]) else []
    if not found:
        return NotImplemented
    return mlir.lower_fun(_ChunkedLoop(ctx, found, **params).run, multiple_results=True)(ctx, *args)


@dataclasses.dataclass(frozen=True)
class _Bar:
    """One bar of a loop, with the index of its marker in the body: of several copies of the marker, the last one counts."""

    found: Found
    index: int

    @property
    def mark(self) -> Mark:
        return self.found.mark

    def scale(self) -> int:
        return self.mark.unroll * self.mark.weight

    def chunk(self) -> int | None:
        """Returns the steps of the compiled loop between two updates, if the user set print_rate."""
        rate = self.mark.settings.print_rate
        return None if rate is None else min(max(1, int(rate) // self.scale()), _MOST_STEPS)


class _ChunkedLoop:
    """Turns a while loop with markers into a loop over chunks."""

    def __init__(
        self,
        ctx: mlir.LoweringRuleContext,
        found: Sequence[Found],
        *,
        cond_jaxpr: Any,
        body_jaxpr: Any,
        cond_nconsts: int,
        body_nconsts: int,
    ):
        self.cond_jaxpr, self.body_jaxpr = cond_jaxpr, body_jaxpr
        self.num_consts = cond_nconsts, body_nconsts
        # A condition that has effects must run once in each step. So it moves into the body, like in JAX's rule.
        self.carries_predicate = bool(cond_jaxpr.effects)
        self.counter = find_counter(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
        self.pred_ndim = len(cond_jaxpr.out_avals[0].shape)
        last: dict[Settings, _Bar] = {}
        for index, each in enumerate(found):
            last[each.mark.settings] = _Bar(each, index)
        self.bars = list(last.values())
        self.has_lanes = self.pred_ndim > 0 and any(bar.mark.has_ids for bar in self.bars)
        devices = context.num_devices(ctx)
        self.has_clock = has_clock(ctx)
        self.parts = _jax_compat.manual_devices(ctx) if devices == 0 else 1
        self.chunk, self.interval_us = self._plan(is_alone=devices == 1)

    def _plan(self, is_alone: bool) -> tuple[int, int]:
        """Returns (steps in a chunk, or 0; microseconds that a chunk should take, or 0). If both are 0, chunks grow."""
        fixed = [chunk for bar in self.bars if (chunk := bar.chunk()) is not None]
        if fixed:
            return min(fixed), 0
        if is_alone:
            return 0, min(bar.mark.settings.interval_us() for bar in self.bars)
        length = self.bars[0].mark.length
        return (0 if length is None else max(1, length // self.bars[0].mark.unroll // _UPDATES)), 0

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
        state = np.array([0] * CLOCK_CHUNK + [self.chunk or 1], np.uint32)
        if self.has_clock:
            state = ask_clock(state, 0)
        going = lax.bitwise_or(self._any(pred), np.True_)  # the bar of a loop without steps is shown and ended, too
        kept = pred if self.carries_predicate else ()
        fields = [[_zeros(aval) for aval in self._shown_avals(bar)] for bar in self.bars]
        lanes = lax.convert_element_type(pred, np.int32) if self.has_lanes else ()
        carry = (going, np.True_, jax.numpy.asarray(state), kept, lanes, init, fields)
        values: list[Any] = lax.while_loop(lambda carry: carry[0], self._chunk, carry)[5]
        return values

    def _predicate(self, values: Sequence[Any]) -> Any:
        (pred,), _ = evaluate(self.cond_jaxpr, [*self.cond_consts, *values])
        return pred

    def _any(self, pred: Any) -> Any:
        return lax.reduce_or(pred, tuple(range(pred.ndim))) if self.pred_ndim else pred

    def _chunk(self, carry: Any) -> Any:
        """Traces one iteration of the outer loop."""
        _, is_first, state, kept, lanes, values, fields = carry
        limit = lax.convert_element_type(lax.select(is_first, np.uint32(0), state[CLOCK_CHUNK]), np.int32)

        begin: Any = None if self.counter is None else values[self.counter.place]
        end: Any = None if self.counter is None else self.counter.end(values, limit)

        def is_left(inner: Any) -> Any:
            if self.counter is not None:
                return lax.lt(inner[3][self.counter.place], end)
            pred = inner[1] if self.carries_predicate else self._predicate(inner[3])
            return lax.bitwise_and(lax.lt(inner[0], limit), self._any(pred))

        no_lanes = lax.full_like(lanes, 0) if self.has_lanes else ()
        inner: Any = (() if self.counter else np.int32(0), kept, no_lanes, values, fields)
        steps, kept, made, values, fields = lax.while_loop(is_left, self._step, inner)
        if self.counter is not None:
            steps = lax.sub(values[self.counter.place], begin)
        going = self._any(kept if self.carries_predicate else self._predicate(values))
        if self.interval_us:
            state = ask_clock(state, self.interval_us)
        elif not self.chunk:
            state = _grown(state, is_first)
        flags = lax.select(is_first, np.uint32(FIRST), np.uint32(0)) | lax.select(going, np.uint32(0), np.uint32(LAST))
        head = jax.numpy.concatenate([state, jax.numpy.stack([lax.convert_element_type(steps, np.uint32), flags])])
        for bar, shown in zip(self.bars, fields, strict=True):
            self._send(bar, head, made if self.has_lanes else None, values, shown)
        return going, lax.full_like(is_first, False), state, kept, made, values, fields

    def _step(self, inner: Any) -> Any:
        """Traces one iteration of the inner loop."""
        count, pred, lanes, values, fields = inner
        if self.pred_ndim and not self.carries_predicate:
            pred = self._predicate(values)
        outs, taken = evaluate(self.body_jaxpr, [*self.body_consts, *values])
        shown = [self._shown_operands(bar, taken[bar.index]) for bar in self.bars]
        if self.pred_ndim:  # lanes of a vmap that have finished stay as they are
            outs = [where_live(pred, new, old) for new, old in zip(outs, values, strict=True)]
            shown = [
                [where_live(pred, new, old) for new, old in zip(*both, strict=True)]
                for both in zip(shown, fields, strict=True)
            ]
            if self.has_lanes:
                lanes = lanes + lax.convert_element_type(pred, np.int32)
        kept = self._predicate(outs) if self.carries_predicate else ()
        return () if self.counter else count + np.int32(1), kept, lanes, outs, shown

    def _fixed_ids(self, bar: _Bar) -> int | None:
        """Returns the index of a bar's ids among the body's arguments, if the ids are known before the first step."""
        found = bar.found
        return bar.mark.split(found.arguments)[0]

    def _recipes(self, bar: _Bar) -> list[Recipe | None]:
        """Returns each field's recipe, or None if the inner loop must compute the field."""

        def is_there(recipe: Recipe | None) -> bool:
            kinds = {source[0] for source in recipe.sources.values()} if recipe else set()
            return recipe is not None and (STACK not in kinds or self._has_rows(bar))

        return [recipe if is_there(recipe) else None for recipe in bar.mark.split(bar.found.recipes)[1]]

    def _has_rows(self, bar: _Bar) -> bool:
        """Returns True if each iteration of a scan writes one row of the carried arrays."""
        return self.counter is not None and bar.mark.is_counted

    def _shown_avals(self, bar: _Bar) -> list[Any]:
        return self._shown_operands(bar, bar.found.avals)

    def _shown_operands(self, bar: _Bar, operands: Sequence[Any]) -> list[Any]:
        """Returns the operands of a bar that the inner loop must return."""
        ids, fields = bar.mark.split(operands)
        fields = [field for field, recipe in zip(fields, self._recipes(bar), strict=True) if recipe is None]
        return fields if ids is None or self._fixed_ids(bar) is not None else [ids, *fields]

    def _send(self, bar: _Bar, head: Any, lanes: Any, values: Sequence[Any], shown: Sequence[Any]) -> None:
        ids, place = None, self._fixed_ids(bar)
        if place is not None:
            ids = [*self.body_consts, *values][place]
        elif bar.mark.has_ids:
            ids, *shown = shown
        passed = iter(shown)

        def read(source: Source) -> Any:
            kind, place, *part = source
            if kind == CONSTANT:
                return self.body_consts[place]
            if kind != STACK:
                return values[place]
            row = self._last_row(bar, values, place)
            return lax.index_in_dim(row, part[0], keepdims=False) if part else row

        fields = [next(passed) if recipe is None else recipe.make(read) for recipe in self._recipes(bar)]
        loop = bar.mark.new_loop(bar.scale(), bar.mark.rest * bar.mark.weight, self.parts)
        send(loop, head, ids, lanes if ids is not None else None, fields)

    def _last_row(self, bar: _Bar, values: Sequence[Any], place: int) -> Any:
        assert self.counter is not None
        assert bar.mark.length is not None
        done = values[self.counter.place]
        turns = np.asarray(bar.mark.length // bar.mark.unroll, done.dtype)
        row = lax.sub(turns, done) if bar.mark.reverse else lax.sub(done, _one(done))
        return lax.dynamic_index_in_dim(values[place], row, keepdims=False)


def _one(like: Any) -> Any:
    return np.ones((), like.dtype)


def _zeros(aval: Any) -> Any:
    return _jax_compat.varying(lax.full(aval.shape, 0, aval.dtype), aval)


def _grown(state: Any, is_first: Any) -> Any:
    """Returns the state with chunks of 1, 2, 4, ... steps, for loops without a clock."""
    chunk = state[CLOCK_CHUNK]
    grown = lax.min(chunk * np.uint32(2), np.uint32(_MOST_UNTIMED))
    return state.at[CLOCK_CHUNK].set(lax.select(is_first, chunk, grown))


loop_lowering.add(_lower_scan, _lower_while)
