# SPDX-License-Identifier: Apache-2.0
"""How long the end of the process waits, and what signals do meanwhile."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any


class ExitWait:
    """Waits until its time is over, or a signal handler raises, as for Ctrl-C or by `sys.exit()`: only the wait ends."""

    def __init__(self, seconds: float):
        self._deadline = time.monotonic() + seconds
        self._is_waiting = False
        self._error: BaseException | None = None
        self.ended_by = f"within exit_timeout_s={seconds:g}"

    def left(self, least: float = 0.0) -> float:
        """Returns the seconds that are left, and at least so many."""
        return max(least, self._deadline - time.monotonic())

    @contextlib.contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Stands around what waits: what a signal handler raises ends the block."""
        try:
            self._is_waiting = True
            yield
            self._is_waiting = False
        except BaseException as error:
            self._is_waiting = False
            if error is not self._error:
                raise

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Has the handlers of signals raise once, and only while something waits. They run in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers: dict[signal.Signals, tuple[Any, Any]] = {}
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler, functools.partial(self._call, handler)
                signal.signal(number, handlers[number][1])
        try:
            yield
        finally:
            for number, (handler, own) in handlers.items():
                if signal.getsignal(number) is own:  # else a handler has set another
                    signal.signal(number, handler)

    def _call(self, handler: Callable[..., Any], number: int, frame: Any) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            what = "Ctrl-C" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__} of a signal handler"
            self.ended_by = f"before {what} ended the wait at exit"
            self._deadline = time.monotonic()
            if self._is_waiting:
                self._is_waiting = False
                self._error = error
                raise
