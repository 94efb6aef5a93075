# SPDX-License-Identifier: Apache-2.0
"""`callout.locate_nans`: what inspects the results of one line."""

from __future__ import annotations

import dataclasses
import logging
import threading

import numpy as np

from .. import log
from ..calls.callback import NOTHING, Callback
from ..delivery.record import Record, step_after
from ..dtypes import bits_of, first_integer, index_text, kind_of, shape_of, unravel
from ..failures import INTERNAL, INVALID_ARGUMENT, Failure, fail
from ..text.plain import plain
from .lanes import Lanes
from .located_nans_text import LocatedNansText, parse_located_nans
from .non_finite import count_non_finite
from .run_findings import RunFinding, add_run_finding

_INPUTS_SHOWN = 6
_ELEMENTS_SHOWN = 4
_RUNS_REPORTED = 10  # each of them; then less and less often


@dataclasses.dataclass(frozen=True)
class _Finding:
    lane: tuple[int, ...]
    result: int
    is_nan: bool
    from_infinite: bool
    first: int  # the row-major place in the result's part


class LocatedNans(Callback):
    """Reports, or fails the program, where a result is bad and no input is."""

    worker = "native"
    inspects = True
    refusal = "locate_nans looks at taps; it cannot be called for a result"

    def __init__(self, label: str, text: LocatedNansText):
        super().__init__(label)
        self._text = text
        self._first_input = text.live + len(text.operations)
        self._first_step = self._first_input + text.inputs
        self._lock = threading.RLock()
        self._runs = 0

    def deliver(self, record: Record) -> None:
        """Nothing comes."""

    def inspect(self, record: Record) -> int:
        """Failure where it stops."""
        text = self._text
        if len(record.arrays) != len(text.masks):
            what = f"callout: locate_nans of {len(text.masks)} arrays got {len(record.arrays)}"
            fail(INVALID_ARGUMENT, what)
        results = record.arrays[text.live : self._first_input]
        if any(count_non_finite(array, True, text.infinities).first >= 0 for array in results):
            self._examine(record)
        return NOTHING

    def _examine(self, record: Record) -> None:
        self._validate(record)
        lanes = Lanes(self._text, record)
        if lanes.count() >= 1 << 63:
            fail(INVALID_ARGUMENT, "callout: locate_nans has more lanes than 2^63 - 1")
        finding = self._find(lanes)
        if finding is None:
            return
        place = RunFinding(
            record.run,
            record.ordinal,
            self._text.order,
            finding.is_nan,
            self._text.backward,
            len(record.offsets) > 0,
        )
        if not add_run_finding(place, finding.from_infinite):
            return
        text = f"locate_nans: {self._describe(record, lanes, finding)}"
        if self._text.fails:
            raise Failure(INTERNAL, text)
        if self._is_to_be_reported():
            self._report(text)

    def _report(self, text: str) -> None:
        from callout._callbacks import located_nans

        try:
            is_taken = located_nans.warn(self._text.place, text)
        except Exception:  # noqa: BLE001 - a filter of the user's
            log.log(logging.WARNING, text)
            return
        if not is_taken:
            raise Failure(INTERNAL, text)

    def _is_to_be_reported(self) -> bool:
        with self._lock:
            self._runs += 1
            return self._runs <= _RUNS_REPORTED or self._runs & (self._runs - 1) == 0

    def _validate(self, record: Record) -> None:
        lanes: list[int | None] = [None] * self._text.extents
        for i, (array, mask) in enumerate(zip(record.arrays, self._text.masks, strict=True)):
            what = f"callout: operand {i} of locate_nans, {shape_of(array)},"
            if array.ndim < mask.bit_count():
                fail(INVALID_ARGUMENT, f"{what} has fewer dimensions than its program says")
            if bits_of(array.dtype) % 8 != 0:
                fail(INVALID_ARGUMENT, f"{what} packs elements into bytes")
            shape = iter(array.shape)
            for extent in range(self._text.extents):
                if mask >> extent & 1:
                    here = next(shape)
                    if not len(record.offsets) and lanes[extent] not in (None, here):
                        fail(INVALID_ARGUMENT, f"{what} has other lanes than those before it")
                    lanes[extent] = here
        for array in record.arrays[self._first_step :]:
            if first_integer(array) is None:
                got = shape_of(array)
                fail(INVALID_ARGUMENT, f"callout: a step of locate_nans must be an integer, got {got}")
        if self._text.live:
            live, lane_rank = record.arrays[0], self._text.masks[0].bit_count()
            if kind_of(live.dtype) != "b" or live.ndim != lane_rank:
                got = shape_of(live)
                fail(INVALID_ARGUMENT, f"callout: the lanes of locate_nans must be bool, one a lane, got {got}")

    def _find(self, lanes: Lanes) -> _Finding | None:
        for lane in lanes:
            if self._text.live:
                live = lanes.part(0, lane)
                if live is None or not live.flat[0]:
                    continue
            if (finding := self._find_in(lanes, lane)) is not None:
                return finding
        return None

    def _find_in(self, lanes: Lanes, lane: tuple[int, ...]) -> _Finding | None:
        inputs: list[np.ndarray] | None = None
        for i in range(len(self._text.operations)):
            part = lanes.part(self._text.live + i, lane)
            if part is None or (found := count_non_finite(part, True, self._text.infinities)).first < 0:
                continue
            if inputs is None:
                parts = (lanes.part(k, lane) for k in range(self._first_input, self._first_step))
                inputs = [operand for operand in parts if operand is not None]
            of_inputs = [count_non_finite(operand) for operand in inputs]
            if any(one.nan for one in of_inputs):
                return None
            has_infinite = any(one.infinite for one in of_inputs)
            if found.nan:
                return _Finding(lane, i, True, has_infinite, count_non_finite(part, True, False).first)
            if not has_infinite:
                return _Finding(lane, i, False, False, found.first)
        return None

    def _describe(self, record: Record, lanes: Lanes, finding: _Finding) -> str:
        text = self._text
        operand = text.live + finding.result
        part = lanes.part(operand, finding.lane)
        assert part is not None  # it was found there
        out = f"{'NaN' if finding.is_nan else 'infinity'} at {text.place}: `{text.expression}`; "
        out += f"{text.operations[finding.result]}{', backward' if text.backward else ', forward'}"
        out += ", out of infinite inputs" if finding.from_infinite else ""
        out += f", in {text.module}" if text.module else ""
        index = unravel(finding.first, part.shape)
        shard = []
        if len(record.offsets):
            front = lanes.rank_in_front(operand)
            shard = [lanes.begin(operand, front + axis) for axis in range(part.ndim)]
            index = [step_after(begin, number) for begin, number in zip(shard, index, strict=True)]
        out += f"; {shape_of(part)} at {index_text(index)}"
        if finding.lane:
            out += f", lane {_joined(lanes.numbers_of(finding.lane))}"
        steps = [lanes.part(i, finding.lane) for i in range(self._first_step, len(record.arrays))]
        if steps:
            numbers = [None if step is None else first_integer(step) for step in steps]
            out += f", step {_joined([-1 if number is None else number for number in numbers])}"
        out += f", device {record.ordinal}"
        out += f", the shard from {index_text(shard)}" if shard else ""
        return out + self._inputs(lanes, finding, part)

    def _inputs(self, lanes: Lanes, finding: _Finding, result: np.ndarray) -> str:
        count = self._text.inputs
        shown = []
        for i in range(min(count, _INPUTS_SHOWN)):
            part = lanes.part(self._first_input + i, finding.lane)
            shown.append("one that is on another device" if part is None else _input(part, result, finding.first))
        more = f" and {count - _INPUTS_SHOWN} more" if count > _INPUTS_SHOWN else ""
        return f"; inputs: {', '.join(shown)}{more}" if count else ""


def _input(part: np.ndarray, result: np.ndarray, first: int) -> str:
    if part.shape == result.shape:
        elements = plain(part.reshape(-1)[first : first + 1].reshape(()))
    else:
        flat = part.reshape(-1)
        elements = plain(flat[:_ELEMENTS_SHOWN] if part.ndim else flat[:1].reshape(()))
        if flat.size > _ELEMENTS_SHOWN:
            elements = f"{elements[:-1]} ...{elements[-1]}"
    return f"{shape_of(part)} {elements}"


def _joined(numbers: list[int]) -> str:
    text = ",".join(map(str, numbers))
    return text if len(numbers) == 1 else f"({text})"


def make_located_nans(label: str, payload: str) -> Callback:
    """Makes what looks at a line of what a program says."""
    return LocatedNans(label, parse_located_nans(payload))
