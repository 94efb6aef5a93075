# SPDX-License-Identifier: Apache-2.0
"""Start and end: what JAX is told when the package is imported, and draining what is queued when the interpreter exits."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax

from .. import _ext, _jax_compat
from . import errors, native_platforms, patches, programs
from .config import config
from .exit_wait import ExitWait
from .loggers import logger

_GRACE_S = 1.0  # beyond the time limit, for threads that leave Python because it is closed: those of jaxlib abort later
_FIRST = 100  # of the finalizers of multiprocessing, whose queues close at 10


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


_last: list[Callable[[], None]] = []


def at_end(function: Callable[[], None]) -> None:
    """Has `function` called at exit, when everything has been delivered; in forked children, too.

    Python's own `atexit` begins with what was registered last, so a module that is imported later would be asked before.
    """
    _last.append(function)


_has_ended = False


def _at_exit() -> None:
    global _has_ended
    if _has_ended:  # as a worker
        return
    _has_ended = True
    try:
        if not _ext.is_forked_child():
            wait = ExitWait(config.exit_timeout_s)
            with wait.interruptible():
                _end(wait)
            if _jax_compat.has_backend():
                _jax_compat.keep_local_devices()
    finally:
        for function in _last:
            function()


def _wait_for_programs(wait: ExitWait) -> None:
    """Whatever keeps it from that is logged: what comes after must not be left out."""
    try:
        programs.prepare()
        with wait.until_interrupted():
            programs.wait_for_programs(wait.left())
    except Exception:  # noqa: BLE001 - whatever it is
        logger.exception("exit: cannot wait for programs, so what they send from now on may be lost")


def _end(wait: ExitWait) -> None:
    if _ext.live_counts()["callbacks"]:
        _wait_for_programs(wait)
    with wait.until_interrupted():
        _ext.drain(wait.left())  # unlike shutdown, it lets Ctrl-C through
    programs.end()
    undelivered = _ext.shutdown(wait.left())
    count, _, last = _ext.take_delivery_errors()
    if count:
        logger.error("%d taps failed and no barrier_wait() came after; the last one: %s", count, last)
    _ext.begin_exit()
    _ext.stop_watchdog()
    inside = 0
    end = time.monotonic() + wait.left(_GRACE_S)
    with wait.until_interrupted():
        while (inside := _ext.close_interpreter(0.1)) and time.monotonic() < end:
            pass  # in slices, for Ctrl-C
    if undelivered:
        logger.warning("exit: %d tap records were not delivered %s", undelivered, wait.ended_by)
    if inside:
        logger.warning("exit: %d thread(s) still inside Python callbacks", inside)


def start() -> None:
    """Starts the core. Called once, by `import callout`."""
    _jax_compat.warn_if_untested()
    _jax_compat.hide_frames(str(Path(__file__).parent.parent))
    if "cpu" not in native_platforms.PLATFORMS:  # a program that is loaded may be the first that calls
        patches.ensure("tapped_values")
    lend_host_callback_handler()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_child=_register_in_worker)
    atexit.register(_at_exit)
    _register_in_worker()


def _before_fork() -> None:
    """Programs of JAX have threads, too. Waits for nothing: what others have registered comes before and after."""
    if _jax_compat.has_backend():
        _ext.note_process_is_used()


def _register_in_worker() -> None:
    """Has processes of multiprocessing end as others do: those that are forked, by a server too, end without `atexit`."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return
    from multiprocessing import util

    def end_worker() -> None:
        if process.parent_process() is not None and not _ext.is_forked_child():
            _at_exit()

    def register(_: object = None) -> None:  # in every process: a worker imports its main program before it is a worker
        util.Finalize(None, end_worker, exitpriority=_FIRST)

    register()
    util.register_after_fork(_at_exit, register)  # which forgets what was registered
