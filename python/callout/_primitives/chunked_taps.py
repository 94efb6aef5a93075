# SPDX-License-Identifier: Apache-2.0
"""Lowers loops with taps that have a flush interval, so that the taps of many steps cross to the host at once.

    while steps are left:           while chunks are left:
      body, taps              ->      while steps are left in this chunk:
                                        body; each tap writes a row of its buffer
                                      each tap sends the rows that are filled
                                      a clock says how many steps the next chunk may have

1. `_Plan` finds the taps of a loop's body, in nested functions, conds and scans, too, and the most records that each
   can send in one step. A tap gets a buffer of so many rows that at least one step fits. A tap for which none fits,
   and the taps of a while loop inside the body, whose steps nobody knows, are left to the loops that they are in.
2. `_Writer` evaluates the body. Its state is a row number and the buffers of each tap; the rules of control_flow.py
   carry the state to where the taps are. A check that is about to fail the program first sends the rows.
3. `_ChunkedLoop` is the loop over chunks.

Records of different taps arrive chunk by chunk. So an ordered tap collects only where nothing else is ordered.

The rows of a tap are sent by the same tap, whose site then has rows: the core sends each as a record of its own
(src/core/delivery/tap_rows.h), so receivers see no difference. Where several devices run the loop together, all must
agree on the length of a chunk, so no clock is asked and the length is fixed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.interpreters import mlir

from .. import _jax_compat
from .._base import patches
from . import context, jaxprs, lanes, loop_lowering
from .chunk_clock import CLOCK_CHUNK, ask_clock, has_clock
from .control_flow import Interpreter, Result, State, called
from .fallback.emit import INSPECTED
from .inspections import check_p
from .loop_counters import find_counter
from .tap import check_sent, tap_p

_MOST_ROWS = 4096
_USUAL_BYTES = 128 << 10  # of a buffer, which a loop of few steps has to clear, too
_MOST_BYTES = 1 << 20
_FEWEST_ROWS = 8
_MOST_UNTIMED = 64  # steps in a chunk without a clock

_tap_lanes_p = lanes.lanes_primitive(tap_p)


def ensure() -> None:
    """Installs what lowers such loops. Called when a tap with a flush interval is traced."""
    patches.ensure("loop_lowering")


def _site(eqn: Any) -> Any:
    if eqn.primitive is tap_p:
        return eqn.params["site"]
    return dict(eqn.params["params"])["site"] if eqn.primitive is _tap_lanes_p else None


def _collects(eqn: Any) -> bool:
    site = _site(eqn)
    return site is not None and site.flush_interval > 0 and not site.has_rows


_taps = jaxprs.Search(_collects)
_taps_and_checks = jaxprs.Search(lambda eqn: _collects(eqn) or eqn.primitive is check_p)


@dataclasses.dataclass
class _Tap:
    """A tap of the loop. `most`: the most records that it sends in one step."""

    params: dict[str, Any]
    avals: tuple[Any, ...]
    most: int

    def row_bytes(self) -> int:
        return sum(math.prod(aval.shape) * aval.dtype.itemsize for aval in self.avals)

    def rows(self) -> int:
        """Returns the number of rows of the tap's buffers; 0 if the buffers cannot hold the records of one step."""
        size = max(self.row_bytes(), 1)
        rows = min(max(_USUAL_BYTES // size, self.most, _FEWEST_ROWS), _MOST_ROWS, _MOST_BYTES // size)
        return rows if rows >= self.most else 0


def _has_whole_rows(avals: Sequence[Any]) -> bool:
    """Returns False for rows that cannot be parts of an array: of unknown extents, of less than a byte, or in shards."""
    for aval in avals:
        spec = getattr(getattr(aval, "sharding", None), "spec", ())
        is_plain = isinstance(aval.dtype, np.dtype) and all(isinstance(extent, int) for extent in aval.shape)
        if not is_plain or any(axis is not None for axis in spec):
            return False
        if _bits(aval.dtype) % 8:
            return False
    return True


def _bits(dtype: np.dtype) -> int:
    for info in (jax.numpy.finfo, jax.numpy.iinfo):
        try:
            return int(info(dtype).bits)
        except (ValueError, TypeError):
            continue
    return 8 * dtype.itemsize


class _Plan:
    """The taps whose records a loop collects, by the identity of their equations."""

    def __init__(self, body: Any, *, allows_ordered: bool):
        self.taps: dict[int, _Tap] = {}
        self.expanded: dict[int, Any] = {}  # of taps of single lanes
        self.concerned: set[int] = set()
        self._allows_ordered = allows_ordered
        self._find(jaxprs.opened(body), 1)
        self.order = list(self.taps)

    def _find(self, jaxpr: Any, times: int) -> bool:
        """Finds the taps in a function that runs `times` in a step. Returns whether it has any, or a check."""
        found = False
        for eqn in jaxpr.eqns:
            if _taps_and_checks.in_equation(eqn) and self._find_in(eqn, times):
                self.concerned.add(id(eqn))
                found = True
        return found

    def _find_in(self, eqn: Any, times: int) -> bool:
        if eqn.primitive is check_p:
            return bool(eqn.params["text"].fails)
        if _collects(eqn):
            return self._add(eqn, times) if eqn.primitive is tap_p else self._find(self._expand(eqn), times)
        name = eqn.primitive.name
        if name == "scan":
            length = eqn.params["length"]
            return isinstance(length, int) and self._find(jaxprs.opened(eqn.params["jaxpr"]), times * length)
        if name == "cond" and not eqn.params.get("branches_platforms"):
            found = [self._find(jaxprs.opened(branch), times) for branch in eqn.params["branches"]]
            return any(found)
        inner = called(eqn)
        return inner is not None and self._find(jaxprs.opened(inner), times)

    def _expand(self, eqn: Any) -> Any:
        """Returns the function of a tap of single lanes: a loop over the lanes, with the tap in a cond."""
        closed = self.expanded[id(eqn)] = jax.make_jaxpr(lambda *args: lanes.over_lanes(eqn, args))(
            *[jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars]
        )
        return closed.jaxpr

    def _add(self, eqn: Any, times: int) -> bool:
        site, avals = eqn.params["site"], tuple(var.aval for var in eqn.invars)
        known = self.taps.get(id(eqn))
        tap = _Tap(eqn.params, avals, times + (known.most if known else 0))
        if tap.rows() == 0 or not _has_whole_rows(avals) or (site.ordered and not self._allows_ordered):
            return False
        if str(getattr(eqn.params["target"], "source", "")).startswith(INSPECTED):
            return False
        self.taps[id(eqn)] = tap
        return True

    def steps(self) -> int:
        """Returns the most steps of a chunk."""
        return min(tap.rows() // tap.most for tap in self.taps.values())


def _count_ordered(jaxpr: Any) -> int:
    """Returns how many equations of a function have an ordered effect of their own."""
    count = 0
    for eqn in jaxprs.opened(jaxpr).eqns:
        if _jax_compat.ordered_effects(eqn):
            inner = sum(map(_count_ordered, jaxprs.inner_jaxprs(eqn)))
            count += inner or 1
    return count


@dataclasses.dataclass(frozen=True)
class _Spread:
    """Marks values as varying over the axes of a shard_map over which anything in the loop varies."""

    axes: frozenset[Any]

    def __call__(self, value: Any) -> Any:
        missing = self.axes - _jax_compat.varying_axes(jax.typeof(value))
        return _jax_compat.varying(value, _jax_compat.array_type((), value.dtype, missing))


class _Writer(Interpreter):
    """Evaluates a body with taps that write rows. The carried state has (row, buffers) for each tap."""

    def __init__(self, plan: _Plan, spread: _Spread):
        super().__init__()
        self.plan = plan
        self.spread = spread

    def concerns(self, eqn: Any) -> bool:
        return id(eqn) in self.plan.concerned

    def apply(self, eqn: Any, state: State, args: Sequence[Any]) -> Result:
        key = id(eqn)
        if key in self.plan.taps:
            return self._write(state.carried, self.plan.order.index(key), args), list(args)
        if key in self.plan.expanded and self.concerns(eqn):
            carried, _ = self.evaluate(self.plan.expanded[key], state, args)
            return carried, list(args[len(args) - len(eqn.outvars) :])
        if eqn.primitive is check_p and self.concerns(eqn):
            return state.carried, _jax_compat.bind_again(eqn, [self._send_before(args[0], state.carried), *args[1:]])
        return super().apply(eqn, state, args)

    def _send_before(self, fails: Any, carried: Any) -> Any:
        """Sends the rows if a check fails. Returns the check's predicate, so that the check comes afterwards."""

        def send(carried: Any) -> Any:
            for key, (count, filled) in zip(self.plan.order, carried, strict=True):
                _send(self.plan.taps[key], count, filled)
            return np.uint32(1)

        any_fails = lax.reduce_or(fails, tuple(range(fails.ndim))) if fails.ndim else fails
        sent = lax.cond(any_fails, send, lambda _: np.uint32(0), carried)
        return lax.bitwise_and(fails, lax.lt(sent, np.uint32(2)))  # always `fails`, and known after `sent`

    def _write(self, carried: Any, place: int, args: Sequence[Any]) -> Any:
        row, buffers = carried[place]
        written = []
        for buffer, arg in zip(buffers, args, strict=True):
            value = self.spread(jax.numpy.asarray(arg, buffer.dtype))
            one = lax.broadcast_in_dim(value, (1, *value.shape), range(1, buffer.ndim))
            written.append(lax.dynamic_update_slice(buffer, one, (row, *[np.uint32(0)] * value.ndim)))
        return [*carried[:place], (row + np.uint32(1), written), *carried[place + 1 :]]


class _ChunkedLoop:
    """Turns a while loop with taps that collect into a loop over chunks."""

    def __init__(
        self,
        ctx: mlir.LoweringRuleContext,
        plan: _Plan,
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
        self.carries_predicate = bool(cond_jaxpr.effects)
        self.counter = find_counter(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
        self.pred_ndim = len(cond_jaxpr.out_avals[0].shape)
        interval = min(tap.params["site"].flush_interval for tap in self.taps)
        self.interval_us = max(1, min(int(interval * 1e6), 2**32 - 1))
        self.is_timed = context.num_devices(ctx) == 1 and has_clock(ctx)
        self.most_steps = plan.steps() if self.is_timed else min(plan.steps(), _MOST_UNTIMED)
        avals = [*body_jaxpr.in_avals, *(aval for tap in self.taps for aval in tap.avals)]
        axes: frozenset[Any] = frozenset().union(*map(_jax_compat.varying_axes, avals))
        self.spread = _Spread(axes)

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
        clock = jax.numpy.asarray(np.array([0] * CLOCK_CHUNK + [1 if self.is_timed else self.most_steps], np.uint32))
        if self.is_timed:
            clock = ask_clock(clock, 0)
        kept = pred if self.carries_predicate else ()
        carry = (self._any(pred), clock, kept, init, [self._empty(tap) for tap in self.taps])
        values: list[Any] = lax.while_loop(lambda carry: carry[0], self._chunk, carry)[3]
        return values

    def _empty(self, tap: _Tap) -> list[Any]:
        return [self.spread(lax.full((tap.rows(), *aval.shape), 0, aval.dtype)) for aval in tap.avals]

    def _predicate(self, values: Sequence[Any]) -> Any:
        (pred,) = jaxprs.evaluate(self.cond_jaxpr, [*self.cond_consts, *values], _jax_compat.bind_again)
        return pred

    def _any(self, pred: Any) -> Any:
        return lax.reduce_or(pred, tuple(range(pred.ndim))) if self.pred_ndim else pred

    def _chunk(self, carry: Any) -> Any:
        """Traces one iteration of the outer loop."""
        _, clock, kept, values, buffers = carry
        limit = lax.convert_element_type(lax.min(clock[CLOCK_CHUNK], np.uint32(self.most_steps)), np.int32)
        begin: Any = None if self.counter is None else values[self.counter.place]
        end: Any = None if self.counter is None else self.counter.end(values, limit)

        def is_left(inner: Any) -> Any:
            if self.counter is not None:
                return lax.lt(inner[2][self.counter.place], end)
            pred = inner[1] if self.carries_predicate else self._predicate(inner[2])
            return lax.bitwise_and(lax.lt(inner[0], limit), self._any(pred))

        first = self.spread(jax.numpy.uint32(0))
        rows = [(first, each) for each in buffers]
        inner: Any = (() if self.counter else np.int32(0), kept, values, rows)
        steps, kept, values, rows = lax.while_loop(is_left, self._step, inner)
        if self.counter is not None:
            steps = lax.sub(values[self.counter.place], begin)
        for tap, (count, filled) in zip(self.taps, rows, strict=True):
            _send(tap, count, filled)
        if self.is_timed:
            done = lax.dynamic_update_slice(clock, lax.convert_element_type(steps, np.uint32)[None], (CLOCK_CHUNK,))
            clock = ask_clock(done, self.interval_us)
        going = self._any(kept if self.carries_predicate else self._predicate(values))
        return going, clock, kept, values, [filled for _, filled in rows]

    def _step(self, inner: Any) -> Any:
        """Traces one iteration of the inner loop."""
        count, pred, values, rows = inner
        if self.pred_ndim and not self.carries_predicate:
            pred = self._predicate(values)
        rows, outs = _Writer(self.plan, self.spread).evaluate(
            self.body_jaxpr, State(carried=rows), [*self.body_consts, *values]
        )
        if self.pred_ndim:  # lanes of a vmap that have finished stay as they are
            outs = [_where(pred, new, old) for new, old in zip(outs, values, strict=True)]
        kept = self._predicate(outs) if self.carries_predicate else ()
        return () if self.counter else count + np.int32(1), kept, list(outs), rows


def _send(tap: _Tap, count: Any, filled: Sequence[Any]) -> None:
    """Sends the first `count` rows."""
    params = dict(tap.params)
    check_sent(tap.avals[: len(tap.avals) - params["site"].has_step], params["target"], params["site"])
    params["site"] = dataclasses.replace(params["site"], has_rows=True)
    tap_p.bind(*filled, count, **params)


def _where(pred: Any, new: Any, old: Any) -> Any:
    """Selects `new` or `old` in each lane. A value without lanes, such as a mean over lanes, is always `new`."""
    if new.shape[: pred.ndim] != pred.shape:
        return new
    wide = lax.broadcast_in_dim(pred, new.shape, range(pred.ndim)) if pred.ndim < new.ndim else pred
    return lax.select(wide, new, old)


def _lower_while(_original: Any, ctx: mlir.LoweringRuleContext, *args: Any, **params: Any) -> Any:
    body = params["body_jaxpr"]
    if not _taps.in_jaxpr(body):
        return NotImplemented
    plan = _Plan(body, allows_ordered=_count_ordered(body) == 1)
    if not plan.taps:
        return NotImplemented
    return mlir.lower_fun(_ChunkedLoop(ctx, plan, **params).run, multiple_results=True)(ctx, *args)


loop_lowering.add(None, _lower_while)
