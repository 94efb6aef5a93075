# SPDX-License-Identifier: Apache-2.0
"""What is kept by name for as long as the process, bounded."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
MOST_NAMES = 4096


class _Entry(Generic[T]):
    def __init__(self, made: T):
        self.made = made
        self.holders: weakref.WeakSet[Any] = weakref.WeakSet()


class NameTable(Generic[T]):
    """Thread-safe."""

    def __init__(self, make: Callable[[], T]):
        self._make = make
        self._entries: dict[str, _Entry[T]] = {}

    def find(self, name: str, holder: object) -> T:
        """The entry of `name`, made if needed. Of more than MOST_NAMES, those whose holders are gone are forgotten."""
        entry = self._entries.get(name)
        if entry is None:
            if len(self._entries) >= MOST_NAMES:
                self._forget(None)
            entry = self._entries.setdefault(name, _Entry(self._make()))
        entry.holders.add(holder)
        return entry.made

    def all(self) -> list[tuple[str, T]]:
        """All entries, in the order of their names."""
        return [(name, entry.made) for name, entry in sorted(self._entries.copy().items())]

    def reset(self, name: str | None, clear: Callable[[T], None]) -> None:
        """Forgets entries that nobody holds, and calls `clear` with the others: of all names, or of this one."""
        self._forget(name)
        for candidate, entry in self._entries.copy().items():
            if name is None or candidate == name:
                clear(entry.made)

    def _forget(self, name: str | None) -> None:
        for candidate, entry in self._entries.copy().items():
            if (name is None or candidate == name) and not len(entry.holders):
                self._entries.pop(candidate, None)
