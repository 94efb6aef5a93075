# SPDX-License-Identifier: Apache-2.0
"""The clock that loops with a progress bar ask between their chunks of steps."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import numpy as np

from ..failures import INVALID_ARGUMENT, fail
from .callback import Callback, Specs

_STATE = 8
_MOST_STEPS = 1 << 30  # JAX counts the steps of a chunk in 32 bits, with a sign
_MOST_GROWTH = 8
_HALF = 0xFFFFFFFF
_executions = itertools.count(1)


def next_chunk(steps: int, elapsed_ns: int, interval_ns: int) -> int:
    """How many steps take about the interval."""
    if steps == 0:
        return 1
    fitting = steps * interval_ns / max(elapsed_ns, 1)
    return int(min(max(fitting, 1.0), min(_MOST_STEPS, steps * _MOST_GROWTH)))


class ProgressClock(Callback):
    """Takes u32[8], the state, and u32, the interval in microseconds; returns the state."""

    worker = "native"

    def call(self, arrays: Sequence[np.ndarray], specs: Specs, ordinal: int) -> list[np.ndarray]:
        """The state: time, execution, run, device, steps of the next chunk; numbers of 64 bits in two halves."""
        shapes = [(array.size, array.dtype) for array in arrays]
        u32 = np.dtype(np.uint32)
        if shapes != [(_STATE, u32), (1, u32)] or len(specs) != 1:
            fail(INVALID_ARGUMENT, "the clock of progress bars takes u32[8] and u32, and returns u32[8]")
        state = [int(number) for number in arrays[0].ravel()]
        interval_us = int(arrays[1].flat[0])
        now = time.monotonic_ns()
        is_first = state[2] == state[3] == 0
        if is_first:
            execution = next(_executions)
            state[2:7] = [execution & _HALF, execution >> 32 & _HALF, 0, 0, ordinal & _HALF]
        if interval_us != 0:
            elapsed = (now - (state[0] | state[1] << 32)) % 2**64
            elapsed -= 2**64 if elapsed >= 2**63 else 0
            state[7] = next_chunk(0 if is_first else state[7], elapsed, interval_us * 1000)
        state[0:2] = [now & _HALF, now >> 32 & _HALF]
        return [np.array(state, np.uint32).reshape(tuple(specs[0][0]))]


def make_clock(label: str, payload: str) -> Callback:
    """Whatever the payload."""
    del payload
    return ProgressClock(label)
