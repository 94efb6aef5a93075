# SPDX-License-Identifier: Apache-2.0
"""Start and end: what XLA is told of the FFI targets, and draining what is queued when the interpreter exits."""

from __future__ import annotations

import atexit
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from .. import _ext, _jax_compat
from .._base import errors
from .._base.config import config
from .._base.loggers import logger
from .._custom_calls import partitioning
from . import native_platforms, programs


def lend_host_callback_handler() -> None:
    """Lets calls on XLA's own threads run where XLA takes them for host callbacks: see docs/hangs.md."""
    handler = _jax_compat.host_callback_handler()
    if handler is not None:
        _ext.lend_host_callback_handler(handler)


def check_usable() -> None:
    """Raises ForkError in a forked child."""
    if _ext.is_forked_child():
        raise errors.ForkError(errors.FORK_TEXT)


def device_of(ordinal: int) -> jax.Device:
    """Returns this process's JAX device with an FFI device ordinal."""
    return next(device for device in _jax_compat.local_devices() if _jax_compat.ordinal_of(device) == ordinal)


class _ExitWait:
    """How long exit waits: until its time is over or Ctrl-C, which then ends the wait and not what comes after it."""

    def __init__(self, seconds: float):
        self._deadline = time.monotonic() + seconds
        self._is_waiting = False
        self.ended_by = f"within exit_timeout_s={seconds:g}"

    def left(self, least: float = 0.0) -> float:
        return max(least, self._deadline - time.monotonic())

    @contextlib.contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Stands around what waits: Ctrl-C ends the block."""
        try:
            self._is_waiting = True
            yield
            self._is_waiting = False
        except KeyboardInterrupt:
            self._end()

    def _end(self) -> None:
        self._deadline = time.monotonic()
        self.ended_by = "before Ctrl-C ended the wait at exit"

    def _interrupt(self, *_: Any) -> None:
        self._end()
        was_waiting, self._is_waiting = self._is_waiting, False
        if was_waiting:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Has Python's own answer to Ctrl-C, if that is what there is, raise once, and only while something waits."""
        if (
            threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        ):
            yield
            return
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


_last: list[Callable[[], None]] = []


def at_end(function: Callable[[], None]) -> None:
    """Has `function` called at exit, when everything has been delivered; in forked children, too.

    Python's own `atexit` begins with what was registered last, so a module that is imported later would be asked before.
    """
    _last.append(function)


def _at_exit() -> None:
    try:
        if not _ext.is_forked_child():
            wait = _ExitWait(config.exit_timeout_s)
            with wait.interruptible():
                _end(wait)
    finally:
        for function in _last:
            function()


def _wait_for_programs(wait: _ExitWait) -> None:
    """Whatever keeps it from that is logged: what comes after must not be left out."""
    try:
        programs.prepare()
        with wait.until_interrupted():
            programs.wait_for_programs(wait.left())
    except Exception:  # noqa: BLE001 - whatever it is
        logger.exception("exit: cannot wait for programs, so what they send from now on may be lost")


def _end(wait: _ExitWait) -> None:
    if _ext.live_counts()["callbacks"]:
        _wait_for_programs(wait)
    with wait.until_interrupted():
        _ext.drain(wait.left())  # unlike shutdown, it lets Ctrl-C through
    programs.forget_trivial()
    undelivered = _ext.shutdown(wait.left())
    count, _, last = _ext.take_delivery_errors()
    if count:
        logger.error("%d taps failed and no barrier_wait() came after; the last one: %s", count, last)
    _ext.begin_exit()
    _ext.stop_watchdog()
    inside = 0
    with wait.until_interrupted():
        while (inside := _ext.close_interpreter(min(0.1, wait.left(0.001)))) and wait.left():
            pass  # in slices, for Ctrl-C
    if undelivered:
        logger.warning("exit: %d tap records were not delivered %s", undelivered, wait.ended_by)
    if inside:
        logger.warning("exit: %d thread(s) still inside Python callbacks", inside)


def start() -> None:
    """Starts the core. Called once, by `import callout`."""
    _jax_compat.warn_if_untested()
    _jax_compat.hide_frames(str(Path(__file__).parent.parent))
    if native_platforms.PLATFORMS:  # which told JAX about the targets
        partitioning.register()
    lend_host_callback_handler()
    atexit.register(_at_exit)
