# SPDX-License-Identifier: Apache-2.0
"""Counters of all callbacks of one label."""

from __future__ import annotations

from typing import Any

from ..name_table import NameTable
from ..process.forks import fork_lock
from ..tables import callback_metrics

_lock = fork_lock()


class Counters:
    """Any thread adds, any thread reads."""

    __slots__ = ("counts", "tap_error_logged")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begins anew."""
        self.counts: dict[str, float] = {key: 0 for key, *_ in callback_metrics()}
        self.tap_error_logged = False

    def ran(self, bytes_: int, seconds: float, failed: bool) -> None:
        """A call, or the delivery of a record."""
        with _lock:
            self.counts["calls"] += 1
            self.counts["bytes"] += bytes_
            self.counts["host_seconds"] += seconds
            self.counts["errors"] += failed

    def add(self, name: str) -> None:
        """One more of "drops", "skips" or "errors"."""
        with _lock:
            self.counts[name] += 1

    def first_tap_error(self) -> bool:
        """Whether nobody has asked before."""
        with _lock:
            was, self.tap_error_logged = self.tap_error_logged, True
        return not was


_by_label: NameTable[Counters] = NameTable(Counters)


def counters_for(label: str, holder: object) -> Counters:
    """The counters of the callbacks of this label, of which `holder` is one."""
    return _by_label.find(label, holder)


def callback_statistics() -> dict[str, dict[str, Any]]:
    """The counters of callbacks, by label."""
    return {label: dict(one.counts) for label, one in _by_label.all()}


def reset() -> None:
    """All labels."""
    _by_label.reset(None, Counters.clear)
