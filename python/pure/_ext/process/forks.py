# SPDX-License-Identifier: Apache-2.0
"""Locks of what may be used in a forked child, and whether this is one.

All locks are reentrant: a signal handler or a destructor may tap or call, and may come wherever its thread has one. None is
taken for a fork: what others have registered for it may wait for threads that want one.
"""

from __future__ import annotations

import os
import threading
from typing import Any

_locks: list[Any] = []
_is_used = False
_is_child = False


def fork_lock() -> Any:
    """A lock that is free in a forked child; what it guards may be half changed. For what there is one of in a process."""
    lock = threading.RLock()
    _locks.append(lock)
    return lock


def note_process_is_used() -> None:
    """From now on the process has threads that a forked child lacks."""
    global _is_used
    _is_used = True


def is_forked_child() -> bool:
    """Whether this process was forked from one that had used callout: its threads did not come along."""
    return _is_child


def _after_in_child() -> None:
    global _is_child
    _is_child = _is_used
    for lock in _locks:
        if not lock._is_owned():  # who forks has interrupted its own thread there
            lock._at_fork_reinit()  # as Python's own modules do


if hasattr(os, "register_at_fork"):  # systems that fork
    os.register_at_fork(after_in_child=_after_in_child)
