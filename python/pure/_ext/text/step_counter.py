# SPDX-License-Identifier: Apache-2.0
"""The step of a record, for sinks that write one."""

from __future__ import annotations

import numpy as np

from ..delivery.record import Record, step_after
from ..dtypes import first_integer


def step_leaf(name: str, array: np.ndarray) -> int | None:
    """The step that a leaf of this name is, if it is one: an integer scalar called "step"."""
    return first_integer(array) if name == "step" and array.ndim == 0 else None


class StepCounter:
    """A sink's own, used on the delivery thread."""

    def __init__(self) -> None:
        self._resumed: dict[str, int] = {}
        self._next: dict[tuple[str, int], int] = {}

    def resume(self, label: str, step: int) -> None:
        """Goes on behind `step` with the records of this name, for a file that is appended to."""
        self._resumed[label] = step_after(step, 1)

    def next(self, record: Record) -> int:
        """What the tap was told; else a leaf called "step"; else how often taps of this name and device were reached."""
        key = (record.info.label, record.ordinal)
        step = record.step
        if step is None:
            found = (step_leaf(*leaf) for leaf in zip(record.info.leaf_names, record.arrays, strict=False))
            step = next((leaf for leaf in found if leaf is not None), None)
        if step is None:
            step = step_after(self._next.get(key, self._resumed.get(record.info.label, 0)), record.unsent)
        self._next[key] = step_after(step, 1)
        return step
