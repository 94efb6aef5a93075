# SPDX-License-Identifier: Apache-2.0
"""The queue between the programs of one device and one delivery thread: many producers, one consumer, bounded in bytes."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from .record import Record

if TYPE_CHECKING:
    from ..calls.callback import Callback

TAKEN, FULL, CLOSED = range(3)
GIVE_UP, WAIT, EXCEED = range(3)  # what happens when it is full
_SLICE_S = 0.1


class BoundedQueue:
    """Its lock is its thread's: one `with` covers a record's place and waking the thread."""

    def __init__(self, worker: str, ordinal: int, capacity: int, lock: Any):
        self.worker = worker
        self.ordinal = ordinal
        self.capacity = capacity
        self.records: deque[tuple[Callback, Record, int]] = deque()
        self.taken = 0  # records since the start
        self._sequence = itertools.count(1)
        self.drained = 0  # taken out by the consumer
        self.delivered = 0
        self.high_water = 0
        self.blocked = 0
        self.waiting = 0
        self.is_closed = False
        self._pending = 0  # bytes
        self._room = threading.Condition(lock)

    def reserve(self, charged: int, when_full: int) -> int:
        """Takes room, for `push`; a record larger than the capacity is taken when the queue is empty. Requires the lock."""
        if self.is_closed:
            return CLOSED
        if not self._has_room(charged):
            if when_full == GIVE_UP:
                return FULL
            if when_full == WAIT and not self._wait(charged):
                return CLOSED
        self._pending += charged
        self.high_water = max(self.high_water, self._pending)
        return TAKEN

    def push(self, callback: Callback, record: Record, charged: int) -> None:
        """Takes a record for which there is room. Requires the lock."""
        record.sequence = next(self._sequence)
        self.records.append((callback, record, charged))
        self.taken += 1  # last: who interrupts this and waits for all records does not wait for one that is not there

    def _has_room(self, charged: int) -> bool:
        return self._pending == 0 or self._pending + charged <= self.capacity

    def _wait(self, charged: int) -> bool:
        """False if it is closed."""
        self.blocked += 1
        self.waiting += 1
        try:
            while not self.is_closed and not self._has_room(charged):
                self._room.wait(_SLICE_S)  # Ctrl-C gets through between them, on every system
        finally:
            self.waiting -= 1
        return not self.is_closed

    def release(self, charged: int) -> None:
        """Gives room back. Requires the lock."""
        self._pending -= charged
        if self.waiting:
            self._room.notify_all()

    def set_capacity(self, capacity: int) -> None:
        """Applies at once. Requires the lock."""
        self.capacity = capacity
        self._room.notify_all()

    def close(self) -> int:
        """Releases producers that wait; how many. Requires the lock."""
        self.is_closed = True
        self._room.notify_all()
        return self.waiting

    def statistics(self) -> dict[str, Any]:
        """The queue's counters, as `stats()` has them."""
        return {
            "worker": self.worker,
            "device": self.ordinal,
            "pending_bytes": self._pending,
            "high_water_bytes": self.high_water,
            "capacity_bytes": self.capacity,
            "blocked": self.blocked,
            "on_device": 0,
            "pinned_bytes": 0,
        }

    def outstanding(self) -> int:
        """Records that are not delivered."""
        return max(0, self.taken - self.delivered)

    def describe(self) -> str:
        """Says for reports what the queue holds."""
        return f"{self.worker} device {self.ordinal}: {self.outstanding()} records, {self._pending} of {self.capacity} bytes"
