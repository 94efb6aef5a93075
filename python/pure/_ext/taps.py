# SPDX-License-Identifier: Apache-2.0
"""The path of a tap's record: its site, the queue, the delivery thread, the barrier and the exit; also eager calls.

The generated table of attributes has every option of a tap; options that are not in `_KNOWN` raise an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import queue
import re
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import process
from .calls import Callback, Specs, count, find, labels_with_errors
from .inspectors import Inspector
from .process import Failure, as_error, escaped, refuse
from .records import Record, first_integer, total_bytes
from .tables import QUEUE_METRICS, TARGET_ATTRIBUTES

_GRACE_S = 0.1
_RECORD_BYTES = 128  # the memory of a record besides its arrays
_MOST_ERRORS = 8  # kept for a barrier


class Delivery:
    """The queue of this process. A wait releases the reentrant lock completely, so an interrupting handler may wait, too."""

    def __init__(self) -> None:
        self.capacity_bytes = 0
        self.is_closed = False
        self.pending_bytes = self.high_water_bytes = self.blocked = self.refused = self.taken = self.delivered = 0
        self._changed = threading.Condition(threading.RLock())
        self._turn = threading.RLock()  # held by the thread that delivers
        self._items: queue.SimpleQueue[tuple[Callback, Any, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, callback: Callback, record: Any) -> None:
        """Queues a record. Blocks until there is room, or until the queue is empty for a record above its capacity."""
        charged = _RECORD_BYTES + total_bytes(getattr(record, "arrays", ()))
        with self._changed:
            self.blocked += self._must_wait(charged)
            while self._must_wait(charged):
                self._changed.wait(process.SLICE_S)
            if self.is_closed:
                self.refused += 1
                count(callback, drops=1)
                return
            self.pending_bytes += charged
            self.high_water_bytes = max(self.high_water_bytes, self.pending_bytes)
            self._items.put((callback, record, charged))
            self.taken += 1  # last, so that an interrupting handler that waits does not wait for this record
            self._start()

    def _must_wait(self, charged: int) -> bool:
        is_full = self.pending_bytes > 0 and self.pending_bytes + charged > self.capacity_bytes and not self.is_closed
        return is_full and self.is_running() and not process.on_delivery_thread()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="callout-python0", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # Python starts no threads at exit: waiting threads deliver then
                self._thread = None

    def is_running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _run(self) -> None:
        process.keep_denormals()
        while self._deliver_next(block=True):
            pass
        with self._changed:
            self._thread = None
            if not self._items.empty():
                self._start()

    def _deliver_next(self, block: bool) -> bool:
        """Delivers a record. Returns False if there is none, or the thread must end."""
        item = None
        with contextlib.suppress(queue.Empty):
            item = self._items.get(block)
        if item is None:
            return False
        callback, record, charged = item
        try:
            with self._turn, process.inside("delivery"):
                if not self.is_closed:
                    _deliver(callback, record)
        finally:
            del item, callback, record  # released before the barrier returns
            with self._changed:
                self.pending_bytes -= charged
                self.delivered += not self.is_closed
                self._changed.notify_all()
        return True

    def drain(self, seconds: float) -> list[str]:
        """Waits, and returns the queues that are outstanding after `seconds` (< 0: no limit); none in a forked child."""
        end = math.inf if seconds < 0 else time.monotonic() + seconds
        goal = self.taken
        while self.delivered < goal and not (self.is_closed or process.is_forked_child()):
            if not self.is_running() and self._deliver_next(block=False):
                continue
            with self._changed:
                left = end - time.monotonic()
                if self.delivered < goal and left <= 0:
                    return [f"{self.taken - self.delivered} records of the python queue of device 0"]
                if self.delivered < goal:
                    self._changed.wait(min(left, process.SLICE_S))
        return []

    def park(self, seconds: float | None = None) -> None:
        """Ends the thread until there is a record to deliver. `seconds`: limits the wait for the thread's end."""
        thread = self._thread
        if thread is not None:
            self._items.put(None)
            thread.join(seconds)

    def shutdown(self, seconds: float) -> int:
        """Delivers queued records, ends the thread for good, and returns the number of undelivered records."""
        self.drain(max(0.0, seconds))
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
        self.park(_GRACE_S)
        return self.refused + self.taken - self.delivered


def _deliver(callback: Callback, record: Any) -> None:
    ordinal, arrays = getattr(record, "ordinal", -1), getattr(record, "arrays", ())
    failed = True
    start = time.perf_counter()
    try:
        callback, record = callback.receiver(record)
        callback.deliver(record)
        failed = False
    except BaseException as error:  # noqa: BLE001 - the next barrier raises it
        trace = sys.exc_info()[2]
        BaseException.with_traceback(error, trace and trace.tb_next)  # drop this function's frame
        add_error(callback, process.described(error, callback.label, ordinal))
    seconds = time.perf_counter() - start
    count(callback, calls=1, bytes=total_bytes(arrays), host_seconds=seconds, errors=failed)


_errors_lock = threading.RLock()
_errors: list[tuple[str, BaseException]] = []  # the first few errors, and the last one
_error_count = 0


def add_error(callback: Callback, described: tuple[str, BaseException]) -> None:
    """Keeps an error for the next barrier. Logs the first error of each label."""
    global _error_count
    if not labels_with_errors.get(callback.label):
        labels_with_errors[callback.label] = True
        more = "Further errors of this callback are counted, not logged; barrier_wait() raises them."
        process.log(logging.ERROR, f"{described[0]}\n{more}", callback.log_source)
    with _errors_lock:
        _errors[min(len(_errors), _MOST_ERRORS) :] = [described]
        _error_count += 1


def take_delivery_errors() -> tuple[int, list[BaseException], tuple[str, BaseException] | None]:
    """Returns (count, first few errors, (text of the last error, last error)) since the last call, and resets them."""
    global _error_count, _errors
    with _errors_lock:
        count, found = _error_count, _errors
        _error_count, _errors = 0, []
    return count, [error for _, error in found[:_MOST_ERRORS]], found[-1] if found else None


the_queue = Delivery()
drain, shutdown, park_delivery_threads = the_queue.drain, the_queue.shutdown, the_queue.park


def call_eager(
    callback: Callback, arrays: Sequence[np.ndarray], result_specs: Specs, device_ordinal: int, ordered: bool
) -> list[np.ndarray]:
    """Calls a callback in this thread; if ordered, after the delivery of earlier taps."""
    if ordered and not process.on_delivery_thread():
        the_queue.drain(-1.0)
    start = time.perf_counter()
    results: list[np.ndarray] | None = None
    try:
        with process.inside("call"):
            process.check_usable()
            results = callback.call(arrays, result_specs, device_ordinal)
        return results
    except BaseException as error:
        described = process.described(error, callback.label, device_ordinal)
        if callback.barrier_raises:
            add_error(callback, described)
        if described[1] is error:
            raise
        raised = described[1]
        del described
    finally:
        size = total_bytes(arrays) + total_bytes(results or ())
        seconds = time.perf_counter() - start
        count(callback, calls=1, bytes=size, host_seconds=seconds, errors=results is None)
    raise raised


def configure_delivery(queue_bytes: int, python_threads: int) -> None:
    """Sets the capacity of the queue. Ignores `python_threads`, because there is one thread."""
    the_queue.capacity_bytes = queue_bytes


def queue_statistics() -> list[dict[str, Any]]:
    """Returns the counters of the queue, which takes the taps of all devices."""
    numbers = {key: vars(the_queue).get(key, 0) for key, *_ in QUEUE_METRICS}
    return [{"worker": "python", "device": 0, **numbers}] if the_queue.taken else []


_KNOWN = {"callback", "label", "leaves", "step", "offsets", "can_fail"}
_KNOWN |= {"names", "threaded", "returned", "sharding", "device_index", "num_devices"}  # the package has handled these

live_sites: weakref.WeakSet[EagerTap] = weakref.WeakSet()


class EagerTap:
    """The site of a tap. Does not keep the callback alive."""

    def __init__(self, like: Callback | str, attributes: Mapping[str, Any]):
        """Reads the encoded attributes of callout.v1.tap. Raises NotImplementedError for an unknown one."""
        self._label = escaped(attributes.get("label") or (like if isinstance(like, str) else like.label))
        known = _KNOWN | ({"on_full"} if isinstance(like, Inspector) else set())  # an inspector never fills the queue
        for row in TARGET_ATTRIBUTES["callout.v1.tap"]:
            name = row["name"]
            if name not in known and not np.array_equal(attributes.get(name, row["fallback"]), row["fallback"]):
                value = row["choices"][attributes[name]] if row["choices"] else attributes[name]
                option = re.sub("_(ns|ppb)$", "", name)  # drop the unit of the attribute
                refuse(f"callout.tap '{self._label}': the option {option!r} ({name} = {value}: {row['meaning']})")
        self._leaf_names = escaped(attributes.get("leaves", "")).split("\n")
        self.has_offsets = bool(attributes.get("offsets"))
        live_sites.add(self)

    def admit(self, device_ordinal: int, step: int | None) -> bool:
        return True  # this core has no options that skip records

    def send(self, callback: Callback, arrays: Sequence[np.ndarray], device_ordinal: int, step: int | None) -> None:
        """Sends a record. If the site has offsets, the last array holds the begin of the value in a larger one."""
        offsets: Sequence[int] = ()
        if self.has_offsets:
            arrays, offsets = arrays[:-1], np.asarray(arrays[-1]).ravel().tolist()
        described: Any = Record(self._label, self._leaf_names, arrays, offsets, device_ordinal, step)
        if isinstance(callback, Inspector):
            try:
                described = callback.look(described)
            except Failure as failure:
                raise as_error(failure, failure.kind) from None
        else:
            process.check_usable()
            described.arrays = [np.array(array, order="C") for array in arrays]
        if described:
            the_queue.put(callback, described)


@dataclasses.dataclass(eq=False, repr=False)
class HostTap:
    """JAX calls this for a tap, with a token if `threaded`, the value, the step, and the index into `ordinals`."""

    call: Any
    callback: Callback | None
    name: str
    attributes: Mapping[str, Any]
    has_step: bool
    has_rows: bool
    ordinals: Sequence[int]
    packed: tuple[int, Sequence[Any]] | None
    answer: tuple[Any, ...]
    threaded: bool

    def __post_init__(self) -> None:
        self._tap = EagerTap(self.callback or self.name, self.attributes)
        if self.packed is not None:
            refuse("callout.tap of several arrays, or with a step, in a program for a TPU")

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Sends a record of the operands."""
        ordinal = -1
        try:
            operands, step = arrays[self.threaded :], None
            self.ordinals = self.ordinals or (self.call.first_ordinal(),)
            ordinal = self.ordinals[0]
            if len(self.ordinals) > 1:
                ordinal, operands = self.ordinals[int(operands[-1])], operands[:-1]
            self.callback = self.callback or find(self.name)
            if self.has_rows:
                self._send_rows(self.callback, operands, ordinal)
                return (arrays[0],) if self.threaded else self.answer
            if self.has_step:
                step, operands = first_integer(operands[-1]), operands[:-1]  # under vmap the first lane's step counts
            self._tap.send(self.callback, operands, ordinal, step)
        except BaseException as error:  # noqa: BLE001 - raised by JAX or by the next barrier
            self.call.fail(BaseException.with_traceback(error, None), ordinal)
        return (arrays[0],) if self.threaded else self.answer

    def _send_rows(self, callback: Callback, operands: Sequence[Any], ordinal: int) -> None:
        """Sends each row of the arrays as a record; see src/core/delivery/tap_rows.h."""
        operands, offsets = list(operands), []
        begin = np.asarray(operands.pop()).ravel().tolist() if self._tap.has_offsets else []
        count = int(operands.pop())
        steps = operands.pop() if self.has_step else None
        for array in operands if begin else ():
            offsets += begin[1 : array.ndim]
            begin = begin[array.ndim :]
        for row in range(count):
            arrays = [np.asarray(array)[row] for array in operands]
            placed = [*arrays, np.asarray(offsets)] if self._tap.has_offsets else arrays
            self._tap.send(callback, placed, ordinal, None if steps is None else first_integer(np.asarray(steps)[row]))
