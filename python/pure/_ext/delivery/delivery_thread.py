# SPDX-License-Identifier: Apache-2.0
"""A thread that drains queues. It runs while there is something to deliver, and waits for more until it is parked."""

from __future__ import annotations

import contextlib
import logging
import queue as queues
import sys
import threading
import time
from typing import TYPE_CHECKING

from .. import log
from ..dtypes import shape_of, total_bytes
from ..failures import text_of
from ..process.in_flight import DELIVERY, Scope
from ..process.threads import keep_denormals
from . import errors
from .bounded_queue import BoundedQueue
from .record import Record

if TYPE_CHECKING:
    from ..calls.callback import Callback

# A batch ends after so many records or so long, so that barriers see progress.
_MOST_RECORDS = 256
_MOST_SECONDS = 2e-3
_SLICE_S = 0.1

_current = threading.local()


def on_delivery_thread() -> bool:
    """Whether this is one."""
    return getattr(_current, "is_delivering", False)


class DeliveryThread:
    """A thread of one worker; several devices may share it."""

    def __init__(self, name: str):
        self.name = name
        self.lock = threading.RLock()  # whoever has it may be interrupted by somebody who taps
        self.is_running = False
        self._is_idle = False
        self._queues: list[BoundedQueue] = []
        self._wakeups: queues.SimpleQueue[None] = (
            queues.SimpleQueue()
        )  # what interrupts `get` may put, unlike a condition
        self._progress = threading.Condition(self.lock)
        self._beginner = 0  # the thread that is about to run or to start it
        self._runs = 0  # begun so far; whoever ends one does not wait for the next
        self._ends = False  # when there is no work, or at once if it is stopped
        self._is_stopped = False

    def add_queue(self, worker: str, ordinal: int, capacity: int) -> BoundedQueue:
        """A queue that it drains from now on."""
        queue = BoundedQueue(worker, ordinal, capacity, self.lock)
        with self.lock:
            self._queues = [*self._queues, queue]
        return queue

    def wake(self) -> None:
        """There is work. Requires the lock."""
        if self._is_idle:
            self._wakeups.put(None)
        elif not self.is_running and not self._is_stopped:
            self._start()

    def makes_room(self) -> bool:
        """Whether it is worth waiting for room in its queues. Requires the lock."""
        self.wake()
        return self.is_running and not on_delivery_thread()

    def _start(self) -> None:
        self._ends = False
        run = self._begin()
        try:
            threading.Thread(target=self._run_apart, args=(run,), name=self.name, daemon=True).start()
        except RuntimeError:  # the interpreter is going away
            self.is_running = False
        self._beginner = 0

    def _begin(self) -> int:
        self._beginner = threading.get_ident()
        self.is_running = True
        self._runs += 1
        return self._runs

    def _is_delivering(self) -> bool:
        """Whether it is worth waiting for: what has interrupted the one that begins to would wait for ever."""
        return self._is_stopped or (self.is_running and self._beginner != threading.get_ident())

    def wait_for(self, queue: BoundedQueue, number: int, deadline: float) -> bool:
        """Whether the record of this number is delivered before the deadline. In slices, for Ctrl-C.

        Delivers here where no thread could be started: at exit Python 3.12 starts none.
        """
        while True:
            with self.lock:
                if self._is_idle and queue.records:
                    self._wakeups.put(None)  # this interrupts somebody who was about to
                while queue.delivered < number and (self._is_delivering() or not queue.records):
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    self._progress.wait(min(left, _SLICE_S))
                if queue.delivered >= number:
                    return True
                self._ends = True
                run = self._begin()
            self._run_here(run)

    def _run_apart(self, run: int) -> None:
        keep_denormals()
        with self.lock:
            if self.is_running and self._runs != run:
                return  # somebody who interrupted the start has begun
            self.is_running = True
        self._run()

    def _run_here(self, run: int) -> None:
        try:
            _current.is_delivering = True
            self._beginner = 0
            self._run()
        finally:  # Ctrl-C, too
            _current.is_delivering = False
            with self.lock:
                if self._runs == run:
                    self.is_running = False

    def end(self, deadline: float, stops: bool) -> bool:
        """Ends the thread; with `stops`, before it is done and for good. Whether it has ended before the deadline."""
        with self.lock:
            self._ends = True
            self._is_stopped |= stops
            if self.is_running:
                self._wakeups.put(None)
            run = self._runs
            while self.is_running and self._runs == run and self._beginner != threading.get_ident():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._progress.wait(min(left, _SLICE_S))
        return True

    def _run(self) -> None:
        _current.is_delivering = True
        while self._has_work():
            touched: list[Callback] = []
            try:
                for queue in self._queues:
                    self._drain(queue, touched)
                self._flush(touched)
            finally:  # Ctrl-C, too
                touched.clear()
                with self.lock:
                    for queue in self._queues:
                        queue.delivered = queue.drained
                    self._progress.notify_all()

    def _has_work(self) -> bool:
        """Waits for some; False if the thread is to end."""
        while True:
            with self.lock:
                self._is_idle = True  # from here on whoever has work wakes it
                has_records = any(queue.records for queue in self._queues)
                if has_records and not self._is_stopped:
                    self._is_idle = False
                    return True
                if self._ends or self._is_stopped:
                    self._is_idle = self.is_running = False
                    if any(queue.records for queue in self._queues):
                        self.wake()  # somebody who tapped has interrupted this
                    self._progress.notify_all()
                    return False
            self._wakeups.get()
            with contextlib.suppress(queues.Empty):
                while True:  # several may have come
                    self._wakeups.get_nowait()

    def _drain(self, queue: BoundedQueue, touched: list[Callback]) -> None:
        end = time.monotonic() + _MOST_SECONDS
        last = queue.drained + _MOST_RECORDS
        while queue.records and queue.drained < last and not self._is_stopped:
            callback, record, charged = queue.records.popleft()
            queue.drained += 1
            if not any(one is callback for one in touched):
                touched.append(callback)
            self._deliver(callback, record)
            del callback, record  # nothing is held while this waits
            with self.lock:
                queue.release(charged)
            if time.monotonic() > end:
                break

    def _deliver(self, callback: Callback, record: Record) -> None:
        if log.is_enabled(logging.DEBUG):
            shapes = "".join(f" {shape_of(array)}" for array in record.arrays)
            text = f"record of '{callback.label}' received from device {record.ordinal}:{shapes}"
            log.log(logging.DEBUG, text, callback.log_source)
        bytes_ = total_bytes(record.arrays)
        failed = True
        start = time.perf_counter()
        try:
            with Scope(DELIVERY, callback.id, record.ordinal):
                callback.deliver(record)
            failed = False
        except BaseException as error:  # noqa: BLE001 - the next barrier raises it
            self._add_error(callback, record.ordinal, error)
        callback.counters.ran(bytes_, time.perf_counter() - start, failed)

    def _flush(self, touched: list[Callback]) -> None:
        for callback in touched:
            try:
                callback.flush()
            except BaseException as error:  # noqa: BLE001 - as above
                callback.counters.add("errors")
                self._add_error(callback, -1, error)

    def _add_error(self, callback: Callback, ordinal: int, error: BaseException) -> None:
        trace = sys.exc_info()[2]  # the error's, whatever a class of the user's says to that
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        BaseException.with_traceback(error, trace)  # whoever keeps it keeps none of this
        errors.add(callback, ordinal, text_of(error))
