# SPDX-License-Identifier: Apache-2.0
"""Reports a callback that makes no progress, once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from .. import live, log
from . import in_flight

_REMEDY = (
    "A callback that uses JAX can wait for computations that are queued behind its own program: use NumPy in it, or call "
    "block_until_ready() on the inputs before the program is dispatched."
)
_REMEDY_FOR_ROOM = (
    "The tap's function is slower than the program, or waits for it (a tap function that uses JAX can wait for the very "
    'program that waits for room: use on_full="drop_newest", or NumPy in the function).'
)
_MOST_REPORTED = 1024


class Watchdog:
    """Looks now and then, on a thread of its own."""

    def __init__(self) -> None:
        self.describe_queues: Callable[[], str] = lambda: "Queues: none"
        self._seconds = 0.0
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._seen: dict[int, tuple[int, float]] = {}
        self._reported: set[int] = set()

    def configure(self, seconds: float) -> None:
        """How long nothing must happen; 0: never. Takes effect at once."""
        self._seconds = seconds
        self._is_stopped = False
        self._changed.set()
        in_flight.when_threads_call(self._start)

    def stop(self) -> None:
        """Ends the thread, and waits for that."""
        self._is_stopped = True
        self._changed.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def _start(self) -> None:
        if self._seconds <= 0 or self._is_stopped or self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="callout-watch", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the interpreter is going away
            self._thread = None
            log.log(logging.WARNING, f"hangs are not reported: cannot start a thread: {error}")

    def _run(self) -> None:
        while not self._is_stopped:
            seconds = self._seconds
            self._changed.wait(min(max(seconds / 4, 0.02), 5.0) if seconds > 0 else 5.0)
            self._changed.clear()
            if self._seconds > 0 and not self._is_stopped:
                self._look(self._seconds)

    def _look(self, seconds: float) -> None:
        now = time.monotonic()
        seen: dict[int, tuple[int, float]] = {}
        for ident, scope in in_flight.readings():
            serial, since = self._seen.get(ident, (0, now))
            seen[ident] = (scope.serial, since if serial == scope.serial else now)
            age = now - seen[ident][1]
            if age >= seconds and scope.callback_id not in self._reported:
                self._reported.add(scope.callback_id)
                log.log(logging.ERROR, self._report(ident, scope, age))
        self._seen = seen
        if len(self._reported) > _MOST_REPORTED:
            self._reported.clear()

    def _report(self, ident: int, scope: in_flight.Scope, age: float) -> str:
        from callout._base import loggers

        remedy = _REMEDY_FOR_ROOM if scope.activity is in_flight.WAITING_FOR_ROOM else _REMEDY
        return (
            f"hang report: callback '{live.label_of(scope.callback_id)}' has made no progress for {age:.1f} s (device "
            f"{scope.ordinal}, run 0, thread {ident}, {scope.activity}). {self.describe_queues()}. {remedy}\n"
            f"{loggers.format_stacks()}"
        )


watchdog = Watchdog()


def set_hang_report_seconds(seconds: float) -> None:
    """Seconds without progress before a callback is reported; 0: never."""
    watchdog.configure(seconds)


def stop_watchdog() -> None:
    """At exit."""
    watchdog.stop()
