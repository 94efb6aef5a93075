# SPDX-License-Identifier: Apache-2.0
"""One value that left a program, and what its site tells of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from ..dtypes import total_bytes

_HEADER_BYTES, _BUFFER_BYTES, _EXTENT_BYTES, _ALIGNMENT = 80, 40, 8, 16
MOST_STEP = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class SiteInfo:
    """What a tap's place in the program tells the receiver of its records."""

    label: str
    leaf_names: list[str]
    has_offsets: bool  # a last array says where in the whole value its shard begins
    has_step: bool


class Record:
    """A record as it lies in a queue. `offsets`: for all dimensions of all arrays in turn; empty: it is the whole."""

    __slots__ = ("arrays", "info", "offsets", "ordinal", "run", "sequence", "step", "time", "unsent")

    def __init__(
        self,
        info: SiteInfo,
        arrays: Sequence[np.ndarray],
        offsets: Sequence[int],
        ordinal: int,
        sequence: int,
        step: int | None,
        unsent: int,
    ):
        self.info = info
        self.arrays = arrays
        self.offsets = offsets
        self.ordinal = ordinal
        self.run = 0
        self.sequence = sequence
        self.step = step
        self.unsent = unsent  # how often its place was reached since the last record, without sending one
        self.time = time.time()


def charged_bytes(arrays: Sequence[np.ndarray]) -> int:
    """What a record counts against a queue's capacity, as in C++."""
    own = _HEADER_BYTES
    for array in arrays:
        own += _BUFFER_BYTES + _EXTENT_BYTES * array.ndim
    return total_bytes(arrays) + -(-own // _ALIGNMENT) * _ALIGNMENT


def step_after(step: int, more: int) -> int:
    """Their sum, or the largest number there is: programs say what they like."""
    return min(step + more, MOST_STEP)
