# SPDX-License-Identifier: Apache-2.0
"""The lanes of a batch that this device has, and what of the operands belongs to one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from ..delivery.record import Record, step_after
from .located_nans_text import LocatedNansText


@dataclasses.dataclass
class _Axis:
    extent: int = 1
    begin: int = 0  # in the whole value
    is_known: bool = False
    is_of_result: bool = False


class Lanes:
    """Over several devices operands may be divided otherwise than results are: what is elsewhere cannot be looked at."""

    def __init__(self, text: LocatedNansText, record: Record):
        self._text = text
        self._record = record
        self._axes = [_Axis() for _ in range(text.extents)]
        self._offsets: list[int] = []  # of each operand, among all axes
        offset = 0
        for i, (mask, array) in enumerate(zip(text.masks, record.arrays, strict=True)):
            self._offsets.append(offset)
            is_result = text.live <= i < text.live + len(text.operations)
            axis = 0
            for extent, told in enumerate(self._axes):
                if not mask >> extent & 1:
                    continue
                if not told.is_known or (is_result and not told.is_of_result):
                    begin = self.begin(i, axis)
                    self._axes[extent] = _Axis(array.shape[axis], begin, is_known=True, is_of_result=is_result)
                axis += 1
            offset += array.ndim

    def begin(self, operand: int, axis: int) -> int:
        """Where this device's part of an operand begins along an axis."""
        at = self._offsets[operand] + axis
        return int(self._record.offsets[at]) if at < len(self._record.offsets) else 0

    def count(self) -> int:
        """How many there are."""
        return math.prod(axis.extent for axis in self._axes)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(np.ndindex(*(axis.extent for axis in self._axes)))

    def rank_in_front(self, operand: int) -> int:
        """Dimensions of an operand that are of lanes."""
        return self._text.masks[operand].bit_count()

    def numbers_of(self, lane: tuple[int, ...]) -> list[int]:
        """Those that a lane of this device has in the whole value."""
        return [step_after(axis.begin, number) for axis, number in zip(self._axes, lane, strict=True)]

    def part(self, operand: int, lane: tuple[int, ...]) -> np.ndarray | None:
        """A lane's part of an operand; None if it is not on this device."""
        array = self._record.arrays[operand]
        index: list[int] = []
        for extent, number in enumerate(lane):
            if self._text.masks[operand] >> extent & 1:
                place = number + self._axes[extent].begin - self.begin(operand, len(index))
                if not 0 <= place < array.shape[len(index)]:
                    return None
                index.append(place)
        return np.asarray(array[tuple(index)])
