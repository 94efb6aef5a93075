# SPDX-License-Identifier: Apache-2.0
"""What failed on delivery threads, for the next barrier."""

from __future__ import annotations

import logging
from typing import Any

from .. import log
from ..failures import describe
from ..process.forks import fork_lock

_MOST_FIRST = 8
_lock = fork_lock()
_count = 0
_first: list[str] = []
_last = ""


def add(callback: Any, ordinal: int, failure: str) -> None:
    """Counts a failure. The first of each label is logged."""
    global _count, _last
    text = describe(callback, ordinal, failure)
    if callback.counters.first_tap_error():
        more = "Further errors of this callback are counted, not logged; barrier_wait() raises them."
        log.log(logging.ERROR, f"{text}\n{more}", callback.log_source)
    with _lock:
        _count += 1
        _last = text
        if len(_first) < _MOST_FIRST:
            _first.append(text)


def take_delivery_errors() -> tuple[int, list[str], str]:
    """(count, texts of the first few, text of the last), since the last call."""
    global _count, _last
    with _lock:
        taken = (_count, _first.copy(), _last)
        _count, _last = 0, ""
        _first.clear()
    return taken
