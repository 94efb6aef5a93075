# SPDX-License-Identifier: Apache-2.0
"""What failed on delivery threads, for the next barrier."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from .. import log
from ..failures import describe
from ..process.forks import fork_lock
from ..tally import Tally

_MOST_FIRST = 8
_lock = fork_lock()  # of those who take
_tally = Tally(["errors"])
_taken: float = 0
_first: deque[str] = deque()
_last = ""


def add(callback: Any, ordinal: int, failure: str) -> None:
    """Counts a failure, last: whoever counts it finds its text. The first of each label is logged."""
    global _last
    text = describe(callback, ordinal, failure)
    if callback.counters.first_tap_error():
        more = "Further errors of this callback are counted, not logged; barrier_wait() raises them."
        log.log(logging.ERROR, f"{text}\n{more}", callback.log_source)
    if len(_first) < _MOST_FIRST:
        _first.append(text)
    _last = text
    _tally.own()["errors"] += 1


def take_delivery_errors() -> tuple[int, list[str], str]:
    """(count, texts of the first few, text of the last), since the last call."""
    global _taken
    with _lock:
        in_all = _tally.sums()["errors"]
        count, _taken = int(in_all - _taken), in_all
        first = [_first.popleft() for _ in range(len(_first))] if count else []
        return count, first[:_MOST_FIRST], _last if count else ""
