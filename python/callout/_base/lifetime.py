# SPDX-License-Identifier: Apache-2.0
"""Start and end: registers Callout with JAX at import, and drains the queues when the interpreter exits."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from .. import _ext, _jax_compat
from . import errors, native_platforms, patches, programs
from .config import config
from .loggers import logger

_GRACE_S = 1.0  # beyond the time limit, for threads to leave Python: later, threads of jaxlib would abort
_FIRST = 100  # priority in multiprocessing's finalizers, whose queues close at 10


def provide_host_callback_handler() -> None:
    """Lets XLA treat calls on its own threads as host callbacks: see docs/hangs.md."""
    handler = _jax_compat.host_callback_handler()
    if handler is not None:
        _ext.provide_host_callback_handler(handler)


def check_usable() -> None:
    """Raises ForkError in a forked child."""
    if _ext.is_forked_child():
        raise errors.ForkError(_ext.FORK_TEXT)


def device_of(ordinal: int) -> jax.Device:
    """Returns this process's JAX device with an FFI device ordinal."""
    return next(device for device in _jax_compat.local_devices() if _jax_compat.ordinal_of(device) == ordinal)


class _ExitWait:
    """Limits the waits at exit: by a deadline, and by a signal handler that raises (Ctrl-C, `sys.exit()`)."""

    def __init__(self, seconds: float):
        self._deadline = time.monotonic() + seconds
        self._is_waiting = False
        self._error: BaseException | None = None
        self.ended_by = f"within exit_timeout_s={seconds:g}"

    def left(self, least: float = 0.0) -> float:
        """Returns the seconds until the deadline, and at least `least`."""
        return max(least, self._deadline - time.monotonic())

    @contextlib.contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Surrounds a wait. An exception of a signal handler ends the block, and is not raised further."""
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
        """Lets signal handlers raise once, and only during a wait. Handlers run in the main thread."""
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
                if signal.getsignal(number) is own:  # otherwise a handler has installed another one
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


_last: list[Callable[[], None]] = []


def at_end(function: Callable[[], None]) -> None:
    """Registers a `function` to call at exit after all deliveries, in forked children, too.

    Python's `atexit` calls the last registration first, so it would call a function of a later module before the
    deliveries.
    """
    _last.append(function)


_has_ended = False


def _at_exit() -> None:
    global _has_ended
    if _has_ended:  # a worker's finalizer was first
        return
    _has_ended = True
    try:
        if not _ext.is_forked_child():
            wait = _ExitWait(config.exit_timeout_s)
            with wait.interruptible():
                _end(wait)
            if _jax_compat.has_backend():
                _jax_compat.keep_local_devices()
    finally:
        for function in _last:
            function()


def _wait_for_programs(wait: _ExitWait) -> None:
    """Waits for programs. Errors are logged and not raised, because the queues must be drained in any case."""
    try:
        programs.prepare()
        with wait.until_interrupted():
            programs.wait_for_programs(wait.left())
    except Exception:  # noqa: BLE001 - any error is logged
        logger.exception("exit: cannot wait for programs, so what they send from now on may be lost")


def _end(wait: _ExitWait) -> None:
    if _ext.live_counts()["callbacks"]:
        _wait_for_programs(wait)
    with wait.until_interrupted():
        _ext.drain(wait.left())  # unlike shutdown, this can be interrupted by Ctrl-C
    programs.end()
    undelivered = _ext.shutdown(wait.left())
    count, _, last = _ext.take_delivery_errors()
    if last is not None:
        logger.error("%d taps failed and no barrier_wait() came after; the last one: %s", count, last[0])
    _ext.begin_exit()
    _ext.stop_watchdog()
    inside = 0
    end = time.monotonic() + wait.left(_GRACE_S)
    with wait.until_interrupted():
        while (inside := _ext.close_interpreter(0.1)) and time.monotonic() < end:
            pass  # waits in slices, so that Ctrl-C can interrupt
    if undelivered:
        logger.warning("exit: %d tap records were not delivered %s", undelivered, wait.ended_by)
    if inside:
        logger.warning("exit: %d thread(s) still inside Python callbacks", inside)


def start() -> None:
    """Starts the core. `import callout` calls this once."""
    _jax_compat.warn_if_untested()
    _jax_compat.hide_frames(str(Path(__file__).parent.parent))
    if "cpu" not in native_platforms.PLATFORMS:  # the first program with calls may be a loaded one, which is not traced
        patches.ensure("tapped_values")
    provide_host_callback_handler()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_child=_register_in_worker)
    atexit.register(_at_exit)
    _register_in_worker()


def _before_fork() -> None:
    """Prepares the core for `os.fork`. Does not wait, because handlers of other libraries run before and after."""
    if _jax_compat.has_backend():
        _ext.note_process_is_used()


def _register_in_worker() -> None:
    """Registers a finalizer in workers of multiprocessing, because forked workers end without `atexit`."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return
    from multiprocessing import util

    def end_worker() -> None:
        if process.parent_process() is not None and not _ext.is_forked_child():
            _at_exit()

    def register(_: object = None) -> None:  # in every process: a worker imports its main program first
        util.Finalize(None, end_worker, exitpriority=_FIRST)

    register()
    util.register_after_fork(_at_exit, register)  # a fork drops the finalizers
