# SPDX-License-Identifier: Apache-2.0
"""Exceptions under numbers, while the text that has the number is on its way through a compiled program."""

from __future__ import annotations

import itertools
import threading

# Exceptions pin their frames, and these their arrays: few are kept. A thread that waits for its program may not run for a
# while, so others that fail again and again meanwhile do not take its place.
_MOST_OF_A_THREAD = 64
_MOST = 1024


class KeptExceptions:
    """Holds the last exceptions of each thread, by number. Thread-safe; destructors of exceptions run without the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._of_threads: dict[int, dict[int, BaseException]] = {}  # oldest first

    def __len__(self) -> int:
        return sum(map(len, self._of_threads.values()))

    def add(self, exception: BaseException) -> int:
        """Keeps an exception that this thread raised, and returns its number."""
        number = next(self._numbers)
        with self._lock:
            own = self._of_threads.setdefault(threading.get_ident(), {})
            own[number] = exception
            dropped = own.pop(next(iter(own))) if len(own) > _MOST_OF_A_THREAD else self._oldest_beyond(_MOST)
        del dropped
        return number

    def _oldest_beyond(self, most: int) -> BaseException | None:
        if len(self) <= most:
            return None
        oldest, thread = min((next(iter(kept)), thread) for thread, kept in self._of_threads.items())
        dropped = self._of_threads[thread].pop(oldest)
        if not self._of_threads[thread]:
            del self._of_threads[thread]
        return dropped

    def find(self, number: int) -> BaseException | None:
        """Returns the exception with this number, if it is still kept."""
        with self._lock:
            return next((kept[number] for kept in self._of_threads.values() if number in kept), None)

    def replace(self, number: int, substitute: BaseException) -> BaseException | None:
        """Puts another exception in its place and returns what was there; None if it is not kept any more."""
        with self._lock:
            for kept in self._of_threads.values():
                if number in kept:
                    was, kept[number] = kept[number], substitute
                    return was
        return None

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            dropped, self._of_threads = self._of_threads, {}
        del dropped
