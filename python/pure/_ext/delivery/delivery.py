# SPDX-License-Identifier: Apache-2.0
"""The asynchronous way out: queues by worker and device, the threads that drain them, the barrier, and the end."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..process import forks
from ..process.forks import fork_lock
from ..process.in_flight import WAITING_FOR_TAPS, Scope
from ..process.watchdog import watchdog
from .bounded_queue import BoundedQueue
from .delivery_thread import DeliveryThread, on_delivery_thread

if TYPE_CHECKING:
    from ..calls.callback import Callback

_WORKERS = ("python", "native")
_GRACE_S = 0.1
_SLICE_S = 0.05


@dataclasses.dataclass(frozen=True)
class Channel:
    """A queue and its thread."""

    queue: BoundedQueue
    thread: DeliveryThread


class Delivery:
    """The queues of this process and their threads."""

    def __init__(self) -> None:
        self.queue_bytes = 256_000_000
        self.is_closed = False
        self.refused = 0  # records that came after the queues were closed
        self._python_threads = 1
        self._lock = fork_lock()
        self._threads: dict[str, list[DeliveryThread]] = {worker: [] for worker in _WORKERS}
        self._channels: dict[tuple[str, int], Channel] = {}

    def configure(self, queue_bytes: int, python_threads: int) -> None:
        """`queue_bytes` applies to all queues at once, `python_threads` to devices seen for the first time."""
        self.queue_bytes = queue_bytes
        self._python_threads = python_threads
        if forks.is_forked_child():
            return  # the threads stayed behind, one of them perhaps with its lock
        for channel in self._all():
            with channel.thread.lock:
                channel.queue.set_capacity(queue_bytes)

    def channel(self, worker: str, ordinal: int) -> Channel:
        """The channel to a worker from a device, made when it is first needed."""
        found = self._channels.get((worker, ordinal))
        if found is not None:
            return found
        with self._lock:
            found = self._channels.get((worker, ordinal))
            if found is None:
                threads = self._threads[worker]
                index = max(ordinal, 0) % (self._python_threads if worker == "python" else 1)
                while len(threads) <= index:
                    threads.append(DeliveryThread(f"callout-{worker}{len(threads)}"[:15]))
                queue = threads[index].add_queue(worker, ordinal, self.queue_bytes)
                found = self._channels[(worker, ordinal)] = Channel(queue, threads[index])
        return found

    def _all(self) -> list[Channel]:
        return [
            self._channels[key] for key in sorted(self._channels.copy(), key=lambda k: (_WORKERS.index(k[0]), k[1]))
        ]

    def drain(self, seconds: float) -> list[str]:
        """What is outstanding after `seconds` (< 0: wait for ever). After shutdown and in a forked child: nothing."""
        if self.is_closed or forks.is_forked_child():
            return []
        deadline = math.inf if seconds < 0 else time.monotonic() + seconds
        goals = [(channel, channel.queue.taken) for channel in self._all()]
        outstanding = []
        for channel, number in goals:
            if not channel.thread.wait_for(channel.queue, number, deadline):
                queue = channel.queue
                outstanding.append(
                    f"{queue.outstanding()} records of the {queue.worker} queue of device {queue.ordinal}"
                )
        return outstanding

    def drain_device(self, caller: Callback, ordinal: int) -> None:
        """Waits for everything that was pushed for the device before the call."""
        if on_delivery_thread() or forks.is_forked_child():
            return
        for worker in _WORKERS:
            channel = self._channels.get((worker, ordinal))
            if channel is None:
                continue
            number = channel.queue.taken
            if channel.queue.delivered >= number:
                continue
            with Scope(WAITING_FOR_TAPS, caller.id, ordinal):
                while not channel.thread.wait_for(channel.queue, number, time.monotonic() + _SLICE_S):
                    if self.is_closed:
                        return

    def park(self) -> None:
        """Ends the threads until there is something to deliver."""
        for thread in self._started():
            thread.end(math.inf, stops=False)

    def shutdown(self, seconds: float) -> int:
        """Drains, and ends the threads for good. Number of records that were not delivered."""
        deadline = time.monotonic() + seconds
        self.drain(max(0.0, seconds))
        self.is_closed = True
        undelivered = self.refused
        for channel in self._all():
            with channel.thread.lock:
                undelivered += channel.queue.close()
            channel.thread.end(max(deadline, time.monotonic() + _GRACE_S), stops=True)
            undelivered += channel.queue.outstanding()
        return undelivered

    def _started(self) -> Sequence[DeliveryThread]:
        return [thread for threads in self._threads.values() for thread in threads]

    def queue_statistics(self) -> list[dict[str, Any]]:
        """The counters of each queue."""
        return [channel.queue.statistics() for channel in self._all()]

    def describe_queues(self) -> str:
        """One line, for reports."""
        return "Queues: " + ("; ".join(channel.queue.describe() for channel in self._all()) or "none")

    def running_threads(self) -> int:
        """Threads that run."""
        return sum(thread.is_running for thread in self._started())


delivery = Delivery()
watchdog.describe_queues = delivery.describe_queues
