# SPDX-License-Identifier: Apache-2.0
"""`callout.error_if`, `warn_if`, `check` and `watch`: callbacks that inspect a tap's value in the program's thread."""

from __future__ import annotations

import logging
import threading
import urllib.parse
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import process
from .calls import Callback, count, makers
from .process import Failure
from .records import Record, RecordFormat, StepCounter, bits_of, index_text, kind_of, shape_of, total_bytes, unravel
from .tables import PROGRAM_KINDS

_lock = threading.RLock()


class Inspector(Callback):
    """The base class of inspectors. Messages that an inspector logs are delivered like records."""

    refusal = "a check or a watch looks at taps; it cannot be called for a result"

    def look(self, record: Record) -> str:
        """Inspects a record. Returns a message to log, or "". Raises Failure to fail the program."""
        count(self, calls=1, bytes=total_bytes(record.arrays))
        try:
            return self.inspect(record)
        except Failure:
            count(self, errors=1)
            raise

    def inspect(self, record: Record) -> str:
        raise NotImplementedError

    def deliver(self, record: str) -> None:
        process.log(logging.WARNING, record)


def _decoded(subject: str, kind: str, payload: str) -> dict[str, str]:
    """Returns the fields of a payload by their names, as texts."""
    rows = PROGRAM_KINDS[kind]
    version, *fields = payload.split(";", len(rows))
    values = {row["name"]: field for row, field in zip(rows, fields, strict=False)}
    if (
        version != "1"
        or len(values) < len(rows)
        or any(row["choices"] and values[row["name"]] not in row["choices"] for row in rows)
    ):
        form = ";".join(["1", *(row["name"] for row in rows)])
        raise Failure(f"callout: {subject} must be '{form}' (docs/abi.md), got '{payload[:80]}'")
    return values


class Check(Inspector):
    """Fails the program if the predicate is true, or logs a warning at the 1st, 2nd, 4th, 8th, ... time.

    The first operand is the predicate.
    """

    def __init__(self, label: str, payload: str):
        super().__init__(label)
        values = _decoded("a check", "check:", payload)
        operands = values["operands"].split(",")
        self._fails, self._text = values["action"] == "raise", values["text"]
        self._masks, self._extents = [int(one.removesuffix("e")) for one in operands], int(values["extents"])
        self._source = urllib.parse.unquote(values["source"])
        self._is_elementwise = [one.endswith("e") for one in operands]
        RecordFormat(self._text)
        self._steps = StepCounter()
        self._times = 0

    def inspect(self, record: Record) -> str:
        if len(record.arrays) != len(self._masks) or kind_of(record.arrays[0].dtype) != "b":
            got = ", ".join(map(shape_of, record.arrays))
            raise Failure(f"callout: a check of {len(self._masks)} arrays, the first a bool, got {got}")
        if "{step" in self._text and record.step is None:
            with _lock:
                record.step = self._steps.next(record)
        predicate = record.arrays[0]
        if not predicate.any():
            return ""
        with _lock:
            times = self._times = 1 if self._fails else self._times + 1
        text = "" if times & (times - 1) else self._describe(record, int(np.argmax(predicate)), times)
        if self._fails:
            raise Failure(text, "check")
        return text

    def _describe(self, record: Record, first: int, times: int) -> str:
        where = iter(_whole_index(record, 0, first))
        lane = [next(where) if self._masks[0] >> extent & 1 else None for extent in range(self._extents)]
        index = list(where)
        lanes = ",".join("all" if number is None else str(number) for number in lane)
        place = [f"lane {lanes}" if len(lane) == 1 else f"lane ({lanes})"] if lane else []
        place += [f"index {index_text(index)}"] if index else []
        place += [] if record.step is None else [f"step {record.step}"]
        place += [f"device {record.ordinal}", *([f"{times} times so far"] if times > 1 else [])]
        source = f"; {self._source}" if self._source else ""
        return f"check failed: {self._shown(record, lane, index)} ({', '.join(place)}{source})"

    def _shown(self, record: Record, lane: Sequence[int | None], index: Sequence[int]) -> str:
        """Returns the text of the check with the values at `index` in the place of its fields.

        If this device does not have one of the values, returns the text with its fields.
        """
        lanes = [-1 if number is None else number for number in lane] or [0]
        of_place = [np.array(lanes[0] if len(lanes) == 1 else lanes, np.int64), np.array(index, np.int64)]
        names = [*record.leaf_names[1:], "lane", "index"]
        try:
            arrays = [*(self._part(record, i, lane, index) for i in range(1, len(record.arrays))), *of_place]
            return RecordFormat(self._text).text(Record(record.label, names, arrays, (), record.ordinal, record.step))
        except (Failure, IndexError):
            return self._text

    def _part(self, record: Record, i: int, lane: Sequence[int | None], index: Sequence[int]) -> np.ndarray:
        """Returns the part of a value that the text shows. Raises IndexError if this device does not have it."""
        array = record.arrays[i]
        prefix = [number for extent, number in enumerate(lane) if self._masks[i] >> extent & 1]
        if None in prefix:
            return array  # the values of all lanes, because the lane is unknown
        prefix += index if self._is_elementwise[i] else ()
        begin = record.begin_of(i) or (0,) * len(prefix)
        local = tuple((number or 0) - first for number, first in zip(prefix, begin, strict=False))
        if any(number < 0 for number in local):
            raise IndexError
        return np.asarray(array[local])


def _whole_index(record: Record, leaf: int, first: int) -> list[int]:
    """Converts an element's index in this device's part to its index in the whole value."""
    local = unravel(first, record.arrays[leaf].shape)
    begin = record.begin_of(leaf) or (0,) * len(local)
    return [first + number for first, number in zip(begin, local, strict=True)]


class Watch(Inspector):
    """Counts NaN and infinities, and logs the first one."""

    def __init__(self, label: str, payload: str):
        super().__init__(label)
        values = _decoded("a watch", "watch:", payload)
        self._nan, self._inf, self._stops = "n" in values["kinds"], "i" in values["kinds"], values["action"] == "stop"

    def inspect(self, record: Record) -> str:
        nans = infinities = 0
        place: dict[str, Any] | None = None
        for leaf, array in enumerate(record.arrays):
            if kind_of(array.dtype) not in ("f", "c") or bits_of(array.dtype) < 8:
                continue
            with np.errstate(all="ignore"):
                is_nan, is_inf = np.isnan(array), ~np.isfinite(array) & ~np.isnan(array)
            nans, infinities = nans + int(is_nan.sum()), infinities + int(is_inf.sum())
            wanted = (is_nan & self._nan) | (is_inf & self._inf)
            if place is None and wanted.any():
                first = int(np.argmax(wanted))
                kind = "nan" if is_nan.ravel()[first] else "inf"
                begin = record.begin_of(leaf) or None
                place = {"step": 0, "device": record.ordinal, "run": record.run, "time": record.time}
                place |= {"leaf": record.leaf_names[leaf], "shape": shape_of(array), "shard": begin, "kind": kind}
                place |= {"index": tuple(_whole_index(record, leaf, first))}
        with _lock:
            notice = self._count(record, nans, infinities, place)
        if place is not None and self._stops:
            raise Failure(_described(record.label, place, nans, infinities), "non_finite")
        return notice

    def _count(self, record: Record, nans: int, infinities: int, place: dict[str, Any] | None) -> str:
        """Counts a record, adds the step to `place`, and returns the message about the first bad one, or ""."""
        counts = _counts.setdefault(record.label, {**dict.fromkeys(_COUNTED, 0), "first": None})
        steps = _next_steps.setdefault(record.label, {})
        step = steps.get(record.ordinal, 0) if record.step is None else record.step
        steps[record.ordinal] = step + 1
        amounts = (1, int(place is not None), sum(array.size for array in record.arrays), nans, infinities)
        counts |= {name: counts[name] + amount for name, amount in zip(_COUNTED, amounts, strict=True)}
        if place is not None:
            place["step"] = step
        if place is None or counts["first"] is not None:
            return ""
        counts["first"] = place
        return _described(record.label, place, nans, infinities)


_COUNTED = ("calls", "bad_calls", "elements", "nan", "inf")
_counts: dict[str, dict[str, Any]] = {}
_next_steps: dict[str, dict[int, int]] = {}


def _described(name: str, place: dict[str, Any], nans: int, infinities: int) -> str:
    text = (
        f"watch '{name}': {nans} NaN and {infinities} infinite elements in step {place['step']}; the first is "
        f"{'a NaN' if place['kind'] == 'nan' else 'infinite'}, at {index_text(place['index'])}"
    )
    text += f" of '{place['leaf']}'" if place["leaf"] else ""
    text += f", {place['shape']}"
    text += f", the shard from {index_text(place['shard'])}" if place["shard"] is not None else ""
    return f"{text}, on device {place['device']}"


def watch_statistics() -> dict[str, dict[str, Any]]:
    return {name: dict(counts) for name, counts in sorted(_counts.copy().items())}


def reset_watches(name: str | None) -> None:
    """Resets the counts of all names, or of one."""
    for each in list(_counts) if name is None else [name]:
        _counts.pop(each, None)
        _next_steps.pop(each, None)


makers |= {"check": Check, "watch": Watch}
