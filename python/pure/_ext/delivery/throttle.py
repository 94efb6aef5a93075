# SPDX-License-Identifier: Apache-2.0
"""`every`, `min_interval` and `sample` of a tap, for each device by itself."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

_ALL_PPB = 1_000_000_000


class Throttle:
    """Lets each device's 1st, (every+1)th, ... record through, or those whose step `every` divides.

    Of these each one with the probability of `sample_ppb`, and none closer than `min_interval_ns` after the last one.
    """

    def __init__(self, said: Mapping[str, Any]):
        """`said`: the attributes of callout.v1.tap, all of them."""
        self._every: int = said["every"]
        self._min_interval_ns: int = said["min_interval_ns"]
        self._sample: float = said["sample_ppb"] / _ALL_PPB
        self._lock = threading.RLock()
        self._seen: defaultdict[int, int] = defaultdict(int)
        self._next: dict[int, int] = {}
        self._unsent: defaultdict[int, int] = defaultdict(int)
        self._admits_all = self._every == 1 and self._min_interval_ns == 0 and self._sample >= 1

    def admit(self, ordinal: int, step: int | None) -> bool:
        """What it does not let through is counted as unsent."""
        if self._admits_all:
            return True
        with self._lock:
            is_admitted = self._is_turn(ordinal, step) and self._is_time(ordinal)
            self._unsent[ordinal] += not is_admitted
        return is_admitted

    def _is_turn(self, ordinal: int, step: int | None) -> bool:
        if self._every > 1:
            count = step
            if count is None:
                count = self._seen[ordinal]
                self._seen[ordinal] += 1
            if count % self._every != 0:
                return False
        return self._sample >= 1 or random.random() < self._sample

    def _is_time(self, ordinal: int) -> bool:
        if self._min_interval_ns == 0:
            return True
        now = time.monotonic_ns()
        if now < self._next.get(ordinal, now):
            return False
        self._next[ordinal] = now + self._min_interval_ns
        return True

    def add_unsent(self, ordinal: int, count: int) -> None:
        """Counts records that did not go out."""
        with self._lock:
            self._unsent[ordinal] += count

    def take_unsent(self, ordinal: int) -> int:
        """How many of the device since this was asked last."""
        if ordinal not in self._unsent:
            return 0
        with self._lock:
            return self._unsent.pop(ordinal, 0)
