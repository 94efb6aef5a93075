# SPDX-License-Identifier: Apache-2.0
"""Plans which taps of a loop collect their records, with how many rows, and which send them together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .. import _jax_compat
from . import jaxprs, lanes
from .control_flow import called
from .fallback.emit import INSPECTED
from .inspections import check_p
from .tap import tap_p

_MOST_ROWS = 4096
_USUAL_BYTES = 128 << 10  # of a buffer, which a loop of few steps has to clear, too
_MOST_BYTES = 1 << 20
_FEWEST_ROWS = 8
_MOST_STEPS = 2**31 - 1  # in a chunk, because the inner loop counts them in an int32

_tap_lanes_p = lanes.lanes_primitive(tap_p)


def _site(eqn: Any) -> Any:
    if eqn.primitive is tap_p:
        return eqn.params["site"]
    return dict(eqn.params["params"])["site"] if eqn.primitive is _tap_lanes_p else None


def _collects(eqn: Any) -> bool:
    site = _site(eqn)
    return site is not None and site.flush_interval > 0 and not site.has_rows


taps = jaxprs.Search(_collects)
_taps_and_checks = jaxprs.Search(lambda eqn: _collects(eqn) or eqn.primitive is check_p)


@dataclasses.dataclass
class Tap:
    """A tap of the loop. `most`: the most records that it sends in a step of the loop that watches its room.

    `guard`: the identity of that loop's equation, if it is a while loop in the body.
    """

    params: dict[str, Any]
    avals: tuple[Any, ...]
    most: int
    guard: int | None
    is_regular: bool = False  # sends one record in each step, so that the row is the number of the step

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


class Plan:
    """The taps whose records a loop collects, by the identity of their equations."""

    def __init__(self, body: Any, *, allows_ordered: bool):
        self.expanded: dict[int, Any] = {}  # the functions of taps of single lanes
        self.concerned: set[int] = set()
        self.guards: list[int] = []  # while loops inside the body, in the order in which their states are carried
        self._allows_ordered = allows_ordered
        self._guard: int | None = None
        self._is_regular = True  # whether the function that is searched runs once in each step
        self._has_checks = False
        self._found: dict[int, Tap] = {}
        self._refused: set[int] = set()
        self._find(jaxprs.opened(body), 1)
        self.taps = {key: tap for key, tap in self._found.items() if key not in self._refused}
        self.order = list(self.taps)
        # A check sends the rows in the middle of a step, before or after a tap.
        are_regular = not self._has_checks and not self.guards
        self.are_regular = are_regular and all(tap.is_regular and tap.most == 1 for tap in self.taps.values())

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
            self._has_checks = self._has_checks or eqn.params["text"].fails
            return bool(eqn.params["text"].fails)
        if eqn.primitive is tap_p and _collects(eqn):
            return self._add(eqn, times)
        inner = called(eqn)
        if inner is not None:
            return self._find(jaxprs.opened(inner), times)
        outer, self._is_regular = self._is_regular, False
        found = self._find_in_other(eqn, times)
        self._is_regular = outer
        return found

    def _find_in_other(self, eqn: Any, times: int) -> bool:
        """Finds the taps in an equation whose functions need not run once in each step."""
        if _collects(eqn):
            return self._find(self._expand(eqn), times)
        name = eqn.primitive.name
        if name == "scan":
            length = eqn.params["length"]
            return isinstance(length, int) and self._find(jaxprs.opened(eqn.params["jaxpr"]), times * max(length, 1))
        if name == "while":
            return self._find_behind_guard(eqn)
        if name == "cond" and not eqn.params.get("branches_platforms"):
            found = [self._find(jaxprs.opened(branch), times) for branch in eqn.params["branches"]]
            return any(found)
        return False

    def _find_behind_guard(self, eqn: Any) -> bool:
        """Finds the taps in a while loop, which sends its rows itself when there is no room for another step."""
        condition = eqn.params["cond_jaxpr"]
        if condition.out_avals[0].shape or condition.effects:
            return False
        outer, self._guard = self._guard, id(eqn)
        found = self._find(jaxprs.opened(eqn.params["body_jaxpr"]), 1)
        self._guard = outer
        if found and id(eqn) not in self.guards:
            self.guards.append(id(eqn))
        return found

    def _expand(self, eqn: Any) -> Any:
        """Returns the function of a tap of single lanes: a loop over the lanes, with the tap in a cond."""
        closed = self.expanded.get(id(eqn))
        if closed is None:
            avals = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars]
            closed = self.expanded[id(eqn)] = jax.make_jaxpr(lambda *args: lanes.over_lanes(eqn, args))(*avals)
        return closed.jaxpr

    def _add(self, eqn: Any, times: int) -> bool:
        site, avals = eqn.params["site"], tuple(var.aval for var in eqn.invars)
        known = self._found.get(id(eqn))  # of another call of the same function
        tap = Tap(eqn.params, avals, times + (known.most if known else 0), self._guard, self._is_regular)
        is_refused = (
            tap.rows() == 0
            or not _has_whole_rows(avals)
            or (site.ordered and (self._guard is not None or not self._allows_ordered))
            or (known is not None and known.guard != self._guard)
            or str(getattr(eqn.params["target"], "source", "")).startswith(INSPECTED)
        )
        if is_refused:
            self._refused.add(id(eqn))
            return False
        self._found[id(eqn)] = tap
        return True

    def hand_overs(self) -> list[list[int]]:
        """Returns the taps of each hand-over: those of one thread of delivery, which treat a full queue alike."""
        together: dict[Any, list[int]] = {}
        for key, tap in self.taps.items():
            target, site = tap.params["target"], tap.params["site"]
            # The thread that delivers to a name is known only when the program is loaded. An ordered tap has JAX's token.
            is_alone = site.ordered or isinstance(target.source, str)
            kind = key if is_alone else (target.is_python(), dict(site.options).get("on_full"))
            together.setdefault(kind, []).append(key)
        return list(together.values())

    def steps(self) -> int:
        """Returns the most steps of a chunk of the outer loop."""
        return min([_MOST_STEPS, *(tap.rows() // tap.most for tap in self.taps.values() if tap.guard is None)])


def count_ordered(jaxpr: Any) -> int:
    """Returns how many equations of a function have an ordered effect of their own."""
    count = 0
    for eqn in jaxprs.opened(jaxpr).eqns:
        if _jax_compat.ordered_effects(eqn):
            inner = sum(map(count_ordered, jaxprs.inner_jaxprs(eqn)))
            count += inner or 1
    return count
