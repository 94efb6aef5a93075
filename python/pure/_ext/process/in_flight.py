# SPDX-License-Identifier: Apache-2.0
"""What each thread is doing on behalf of a callback, for the watchdog and for those who must not wait inside of one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

CALL = "in a callback that its program waits for"
DELIVERY = "in a tap's function"
WAITING_FOR_ROOM = "waiting for room in a full tap queue"
WAITING_FOR_TAPS = "an ordered call waiting for the delivery of earlier taps"

_serials = itertools.count(1)
_by_thread: dict[int, Scope] = {}
_is_told = False
_tell: Callable[[], None] | None = None


class Scope:
    """Marks the current thread for as long as it is entered. Nests."""

    __slots__ = ("activity", "before", "callback_id", "ident", "ordinal", "serial")

    def __init__(self, activity: str, callback_id: int, ordinal: int):
        self.activity = activity
        self.callback_id = callback_id
        self.ordinal = ordinal

    def __enter__(self) -> None:
        self.serial = next(_serials)
        self.ident = ident = threading.get_ident()
        self.before = _by_thread.get(ident)
        _by_thread[ident] = self
        if not _is_told:
            _tell_of_first()

    def __exit__(self, *_: object) -> None:
        if self.before is None:
            _by_thread.pop(self.ident, None)
        else:
            self.before.serial = next(_serials)
            _by_thread[self.ident] = self.before


def when_threads_call(told: Callable[[], None]) -> None:
    """Calls `told` when a thread first has a scope; at once, too, if one had."""
    global _tell
    _tell = told
    if _is_told:
        told()


def _tell_of_first() -> None:
    global _is_told
    _is_told = True
    if _tell is not None:
        _tell()


def inside_call() -> bool:
    """Whether this thread is inside a callback that its program, or its eager caller, waits for."""
    scope = _by_thread.get(threading.get_ident())
    while scope is not None:
        if scope.activity is CALL:
            return True
        scope = scope.before
    return False


def readings() -> list[tuple[int, Scope]]:
    """(thread, what it is doing) of all threads that are not idle."""
    return list(_by_thread.copy().items())
