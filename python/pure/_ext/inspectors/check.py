# SPDX-License-Identifier: Apache-2.0
"""`callout.error_if`, `warn_if` and `check`: a tap whose first array is a predicate."""

from __future__ import annotations

import logging
import threading

import numpy as np

from .. import log
from ..calls.callback import NOTHING, NOTICE, Callback
from ..delivery.record import Record, SiteInfo, step_after
from ..dtypes import bits_of, index_text, kind_of, shape_of, unravel
from ..failures import INTERNAL, INVALID_ARGUMENT, Failure, fail
from ..text.record_format import RecordFormat
from ..text.step_counter import StepCounter
from .check_text import CheckText, parse_check


class Check(Callback):
    """Where the predicate is true, the program fails; or a warning is logged at the 1st, 2nd, 4th, 8th, ... time."""

    inspects = True
    refusal = "a check looks at taps; it cannot be called for a result"

    def __init__(self, label: str, text: CheckText):
        super().__init__(label)
        self._text = text
        self._counts_steps = "{step" in text.format
        self._lock = threading.RLock()
        self._steps = StepCounter()
        self._times = 0
        self._warnings: list[str] = []

    def inspect(self, record: Record) -> int:
        """Failure where the predicate is true, if it is to fail."""
        self._validate(record)
        if self._counts_steps and record.step is None:
            with self._lock:
                record.step = self._steps.next(record)
        predicate = record.arrays[0]
        if not predicate.any():
            return NOTHING
        first = int(np.argmax(predicate))
        if self._text.fails:
            raise Failure(INTERNAL, self._describe(record, first, 1))
        with self._lock:
            self._times += 1
            times = self._times
            if times & (times - 1):
                return NOTHING
            self._warnings.append(self._describe(record, first, times))
        return NOTICE

    def deliver(self, record: Record) -> None:
        """The warnings that have come together."""
        del record
        with self._lock:
            warnings, self._warnings = self._warnings, []
        for warning in warnings:
            log.log(logging.WARNING, warning)

    def _validate(self, record: Record) -> None:
        operands = self._text.operands
        if len(record.arrays) != len(operands):
            fail(INVALID_ARGUMENT, f"callout: a check of {len(operands)} arrays got {len(record.arrays)}")
        if kind_of(record.arrays[0].dtype) != "b":
            got = shape_of(record.arrays[0])
            fail(INVALID_ARGUMENT, f"callout: the predicate of a check must be bool, got {got}")
        for i, (array, operand) in enumerate(zip(record.arrays, operands, strict=True)):
            what = f"callout: operand {i} of a check, {shape_of(array)},"
            if bits_of(array.dtype) % 8 != 0:
                fail(INVALID_ARGUMENT, f"{what} packs elements into bytes")
            if array.ndim < operand.mask.bit_count():
                fail(INVALID_ARGUMENT, f"{what} has fewer dimensions than its program says")

    def _describe(self, record: Record, first: int, times: int) -> str:
        place = _Place(self._text, record, first)
        text = f"check failed: {place.text()} ({place.describe()}"
        if times > 1:
            text += f", {times} times so far"
        return f"{text}; {self._text.source})" if self._text.source else f"{text})"


class _Place:
    """Where a predicate was true: the lane of each extent, None for all of them, and the index behind it."""

    def __init__(self, text: CheckText, record: Record, first: int):
        self._text = text
        self._record = record
        where = unravel(first, record.arrays[0].shape)
        where = [step_after(self._begin(axis), number) for axis, number in enumerate(where)]
        rest = iter(where)
        mask = text.operands[0].mask
        self.lane = [next(rest) if mask >> extent & 1 else None for extent in range(text.extents)]
        self.index = list(rest)

    def _begin(self, axis: int) -> int:
        """Where a shard begins, along an axis of all arrays' axes."""
        return self._record.offsets[axis] if axis < len(self._record.offsets) else 0

    def describe(self) -> str:
        """Says in words where it is."""
        parts = []
        if self.lane:
            lanes = ",".join("all" if number is None else str(number) for number in self.lane)
            parts.append(f"lane {lanes}" if len(self.lane) == 1 else f"lane ({lanes})")
        if self.index:
            parts.append(f"index {index_text(self.index)}")
        if self._record.step is not None:
            parts.append(f"step {self._record.step}")
        return ", ".join([*parts, f"device {self._record.ordinal}"])

    def text(self) -> str:
        """What the check says, with the values there."""
        parts: list[np.ndarray] = []
        first_axis = self._record.arrays[0].ndim
        for i, array in enumerate(self._record.arrays[1:], 1):
            part = self._part(array, i, first_axis)
            if part is None:
                return self._text.format
            parts.append(part)
            first_axis += array.ndim
        lanes = [-1 if number is None else number for number in self.lane] or [0]
        lane = np.array(lanes[0] if len(lanes) == 1 else lanes, np.int64)
        info = self._record.info
        site = SiteInfo(info.label, [*info.leaf_names[1:], "lane", "index"], has_offsets=False, has_step=info.has_step)
        shown = Record(
            site,
            [*parts, lane, np.array(self.index, np.int64)],
            (),
            self._record.ordinal,
            0,
            self._record.step,
            0,
        )
        try:
            return RecordFormat(self._text.format).text(shown)
        except Failure:
            return self._text.format

    def _part(self, array: np.ndarray, operand: int, first_axis: int) -> np.ndarray | None:
        """What the text shows of a value; None if this device does not have it."""
        told = self._text.operands[operand]
        prefix: list[int] = []
        for extent, number in enumerate(self.lane):
            if told.mask >> extent & 1:
                if number is None:
                    return array  # the values of all lanes
                prefix.append(number)
        if told.is_elementwise:
            prefix += self.index
        if len(prefix) > array.ndim:
            return None
        local = [number - self._begin(first_axis + axis) for axis, number in enumerate(prefix)]
        if any(not 0 <= number < extent for number, extent in zip(local, array.shape, strict=False)):
            return None
        return np.asarray(array[tuple(local)])


def make_check(label: str, payload: str) -> Callback:
    """Makes a check of what a program says."""
    return Check(label, parse_check(payload))
