# SPDX-License-Identifier: Apache-2.0
"""Exceptions under numbers, while the text that has the number is on its way through a compiled program."""

from __future__ import annotations

import itertools
import threading
from collections import deque

# Exceptions pin their frames, and these their arrays: few are kept. A thread that waits for its program may not run for a
# while, so others that fail again and again meanwhile do not take its place.
_MOST_OF_A_THREAD = 64
_MOST = 1024


class KeptExceptions:
    """Holds the last exceptions of each thread, by number. Thread-safe.

    Without a lock: signal handlers and destructors fail, too, and come anywhere, and a handler may wait for other threads.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._kept: dict[int, BaseException] = {}
        self._of_threads: dict[int, deque[int]] = {}  # oldest first; others may have made room of some

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, exception: BaseException) -> int:
        """Keeps an exception that this thread raised, and returns its number."""
        number = next(self._numbers)
        self._kept[number] = exception
        # A new thread may be called as one that ended, and has its numbers then.
        own = self._of_threads.setdefault(threading.get_ident(), deque())
        own.append(number)
        if len(own) > _MOST_OF_A_THREAD:
            self._kept.pop(own.popleft(), None)
        while len(self._kept) > _MOST:  # threads that come at once may make room of the same one
            self._kept.pop(min(list(self._kept), default=0), None)
        return number

    def find(self, number: int) -> BaseException | None:
        """Returns the exception with this number, if it is still kept."""
        return self._kept.get(number)

    def replace(self, number: int, substitute: BaseException) -> BaseException | None:
        """Puts another exception in its place and returns what was there; None if it is not kept any more."""
        was = self._kept.get(number)
        if was is not None:
            self._kept[number] = substitute
        return was

    def clear(self) -> None:
        """Forgets all of them."""
        self._kept.clear()
