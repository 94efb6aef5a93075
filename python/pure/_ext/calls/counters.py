# SPDX-License-Identifier: Apache-2.0
"""Counters of all callbacks of one label."""

from __future__ import annotations

from typing import Any

from ..name_table import NameTable
from ..tables import callback_metrics
from ..tally import Tally


class Counters:
    """Any thread adds, any thread reads."""

    __slots__ = ("_logged", "_tally")

    def __init__(self) -> None:
        self._tally = Tally(key for key, *_ in callback_metrics())
        self._logged: dict[None, object] = {}

    def clear(self) -> None:
        """Begins anew."""
        self._tally.clear()
        self._logged.clear()

    def ran(self, bytes_: int, seconds: float, failed: bool) -> None:
        """A call, or the delivery of a record."""
        own = self._tally.own()
        own["calls"] += 1
        own["bytes"] += bytes_
        own["host_seconds"] += seconds
        own["errors"] += failed

    def add(self, name: str) -> None:
        """One more of "drops", "skips" or "errors"."""
        self._tally.own()[name] += 1

    def first_tap_error(self) -> bool:
        """Whether nobody has asked before."""
        asking = object()
        return self._logged.setdefault(None, asking) is asking

    def values(self) -> dict[str, float]:
        """The sums, by name."""
        return self._tally.sums()


_by_label: NameTable[Counters] = NameTable(Counters)


def counters_for(label: str, holder: object) -> Counters:
    """The counters of the callbacks of this label, of which `holder` is one."""
    return _by_label.find(label, holder)


def callback_statistics() -> dict[str, dict[str, Any]]:
    """The counters of callbacks, by label."""
    return {label: one.values() for label, one in _by_label.all()}


def reset() -> None:
    """All labels."""
    _by_label.reset(None, Counters.clear)
