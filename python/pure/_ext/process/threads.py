# SPDX-License-Identifier: Apache-2.0
"""Threads that are waited for with a time limit, also where Python starts none any more: at exit."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .forks import fork_lock

_SLICE_S = 0.1  # Ctrl-C gets through between them, on every system


_DEFAULT_ENVIRONMENT = ctypes.c_void_p(-1)  # FE_DFL_ENV of the C libraries of Linux


def keep_denormals() -> None:
    """Has this thread compute with denormal numbers. It does as the one that started it, and XLA's take them for zeros."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libm.so.6").fesetenv(_DEFAULT_ENVIRONMENT)


class _Spare:
    """A thread that waits for something to do, and does it."""

    def __init__(self) -> None:
        self._work: Callable[[], Any] | None = None
        self._given = threading.Event()
        self._thread = threading.Thread(target=self._run, name="callout-spare", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def give(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._given.set()

    def _run(self) -> None:
        self._given.wait()
        if self._work is not None:
            self._work()


_spare: _Spare | None = None
_lock = fork_lock()


def keep_spare() -> None:
    """Has a thread ready for the end of the process, which starts none. Called before the first callback is."""
    global _spare
    if _spare is None:
        with _lock:
            if _spare is None:
                try:
                    _spare = _Spare()
                except RuntimeError:  # the interpreter is going away
                    return


def _on_some_thread(work: Callable[[], Any]) -> bool:
    global _spare
    try:
        threading.Thread(target=work, name="callout-wait", daemon=True).start()
    except RuntimeError:
        with _lock:
            spare, _spare = _spare, None
        if spare is None or not spare.is_alive():
            return False
        spare.give(work)
    return True


def call_with_timeout(function: Callable[[], Any], seconds: float) -> bool:
    """Calls function() on another thread; False if it is not back after `seconds`."""
    done = threading.Event()

    def run() -> None:
        try:
            function()
        except BaseException:  # noqa: BLE001 - nobody is there to take it
            sys.unraisablehook(_Unraisable(function))  # type: ignore[arg-type]
        finally:
            done.set()

    return _on_some_thread(run) and wait_for(done, seconds)


def wait_for(event: threading.Event, seconds: float) -> bool:
    """Whether it is set within `seconds`."""
    deadline = time.monotonic() + seconds
    while not event.wait(max(0.0, min(_SLICE_S, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return False
    return True


class _Unraisable:
    """What `sys.unraisablehook` takes."""

    err_msg = None

    def __init__(self, function: Any):
        self.exc_value = sys.exception()
        self.exc_type = type(self.exc_value)
        self.exc_traceback = sys.exc_info()[2]
        self.object = function
