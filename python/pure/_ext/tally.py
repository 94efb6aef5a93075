# SPDX-License-Identifier: Apache-2.0
"""Sums that any thread adds to, and reads, without waiting for another."""

from __future__ import annotations

import threading
from collections.abc import Iterable


class Tally:
    """Each thread adds to numbers of its own.

    Without a lock: what comes in between, a signal handler or a destructor, may wait for the very threads that add.
    """

    __slots__ = ("_names", "_of_threads")

    def __init__(self, names: Iterable[str]):
        self._names = tuple(names)
        self.clear()

    def clear(self) -> None:
        """Begins anew."""
        self._of_threads: dict[int, dict[str, float]] = {}

    def own(self) -> dict[str, float]:
        """This thread's numbers, to add to. A thread that was called the same before has left some."""
        ident = threading.get_ident()
        found = self._of_threads.get(ident)
        return found or self._of_threads.setdefault(ident, dict.fromkeys(self._names, 0))

    def sums(self) -> dict[str, float]:
        """Of all threads."""
        threads = list(self._of_threads.values())
        return {name: sum(own[name] for own in threads) for name in self._names}
