# SPDX-License-Identifier: Apache-2.0
"""Has Python's lock of threads free in a forked child.

A thread that Python did not start, one of XLA's or of the core's, has an object that takes this lock when it goes, once
its Python code has asked for the current thread, as `logging` does (since Python 3.13). The objects of the threads that
stay in the parent go at the beginning of the child, before Python makes the lock anew: it would wait for ever for a
thread that held it.
"""

from __future__ import annotations

import os
import threading

_PATIENCE_S = 1.0  # one that does not let go is no reason to keep a process from forking
_local = threading.local()  # several threads may fork


def _before() -> None:
    lock = threading._active_limbo_lock  # type: ignore[attr-defined]
    _local.held = lock if lock.acquire(timeout=_PATIENCE_S) else None


def _after() -> None:
    held = getattr(_local, "held", None)
    _local.held = None
    if held is not None:
        held.release()


def start() -> None:
    """Does so from now on. Called once."""
    has_objects = hasattr(threading, "_DeleteDummyThreadOnDel") and hasattr(threading, "_active_limbo_lock")
    if has_objects and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
