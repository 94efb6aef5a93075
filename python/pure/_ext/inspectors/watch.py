# SPDX-License-Identifier: Apache-2.0
"""`callout.watch`: counts NaN and infinities, and sends a notice of the first."""

from __future__ import annotations

import logging
from typing import Any

from .. import log
from ..calls.callback import NOTHING, NOTICE, Callback
from ..delivery.record import Record, step_after
from ..dtypes import index_text, shape_of, unravel
from ..failures import INTERNAL, INVALID_ARGUMENT, Failure
from ..name_table import NameTable
from ..process.forks import fork_lock
from .non_finite import NonFinite, count_non_finite

_lock = fork_lock()


class _Entry:
    """What the watches of one name have seen."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.counts: dict[str, Any] = dict.fromkeys(("calls", "bad_calls", "elements", "nan", "inf"), 0)
        self.counts["first"] = None
        self.notice = ""
        self._next_step: dict[int, int] = {}

    def add(self, record: Record, found: NonFinite, place: dict[str, Any] | None) -> bool:
        """Whether it is the first bad record. Writes the step of `place`."""
        with _lock:
            step = record.step
            if step is None:
                step = step_after(self._next_step.get(record.ordinal, 0), record.unsent)
            self._next_step[record.ordinal] = step_after(step, 1)
            self.counts["calls"] += 1
            self.counts["elements"] += sum(array.size for array in record.arrays)
            self.counts["nan"] += found.nan
            self.counts["inf"] += found.infinite
            if place is None:
                return False
            place["step"] = step
            self.counts["bad_calls"] += 1
            if self.counts["first"] is not None:
                return False
            self.counts["first"] = place
            self.notice = _describe(record.info.label, place, found)
            return True


_by_name: NameTable[_Entry] = NameTable(_Entry)


def _describe(name: str, place: dict[str, Any], found: NonFinite) -> str:
    text = (
        f"watch '{name}': {found.nan} NaN and {found.infinite} infinite elements in step {place['step']}; the first is "
        f"{'a NaN' if place['kind'] == 'nan' else 'infinite'}, at {index_text(place['index'])}"
    )
    if place["leaf"]:
        text += f" of '{place['leaf']}'"
    text += f", {place['shape']}"
    if place["shard"] is not None:
        text += f", the shard from {index_text(place['shard'])}"
    return f"{text}, on device {place['device']}"


def _place(record: Record, leaf: int, found: NonFinite, offset: int) -> dict[str, Any]:
    array = record.arrays[leaf]
    index = unravel(found.first, array.shape)
    shard = None
    if array.ndim and offset + array.ndim <= len(record.offsets):
        shard = tuple(int(begin) for begin in record.offsets[offset : offset + array.ndim])
        index = [step_after(begin, number) for begin, number in zip(shard, index, strict=True)]
    return {
        "step": 0,
        "device": record.ordinal,
        "run": record.run,
        "time": record.time,
        "leaf": record.info.leaf_names[leaf],
        "shape": shape_of(array),
        "index": tuple(index),
        "shard": shard,
        "kind": "nan" if found.first_is_nan else "inf",
    }


class Watch(Callback):
    """`nan`, `infinite`: what is looked for."""

    inspects = True
    refusal = "a watch looks at taps; it cannot be called for a result"

    def __init__(self, label: str, nan: bool, infinite: bool, stops: bool):
        super().__init__(label)
        self._nan, self._infinite, self._stops = nan, infinite, stops

    def inspect(self, record: Record) -> int:
        """Failure at a bad value, if it stops there."""
        nan = infinite = 0
        place = None
        offset = 0
        for leaf, array in enumerate(record.arrays):
            found = count_non_finite(array, self._nan, self._infinite)
            nan, infinite = nan + found.nan, infinite + found.infinite
            if found.first >= 0 and place is None:
                place = _place(record, leaf, found, offset)
            offset += array.ndim
        all_found = NonFinite(nan, infinite)
        is_first = _by_name.find(record.info.label, self).add(record, all_found, place)
        if place is None:
            return NOTHING
        if self._stops:
            raise Failure(INTERNAL, _describe(record.info.label, place, all_found))
        return NOTICE if is_first else NOTHING

    def deliver(self, record: Record) -> None:
        """The notice of the first bad value."""
        notice = _by_name.find(record.info.label, self).notice
        if notice:
            log.log(logging.WARNING, notice)


def make_watch(label: str, payload: str) -> Callback:
    """Makes a watch of "1;ni;report" and the like."""
    for stops in (False, True):
        for checks in ("n", "i", "ni"):
            if payload == f"1;{checks};{'stop' if stops else 'report'}":
                return Watch(label, "n" in checks, "i" in checks, stops)
    raise Failure(
        INVALID_ARGUMENT,
        f"callout: a watch must be '1;' and 'n', 'i' or 'ni' and ';report' or ';stop', got '{payload}'",
    )


def watch_statistics() -> dict[str, dict[str, Any]]:
    """The counters of watches, by name."""
    return {name: dict(entry.counts) for name, entry in _by_name.all()}


def reset_watches(name: str | None) -> None:
    """Begins the counts of all names, or of one, anew."""
    _by_name.reset(name, _Entry.clear)
