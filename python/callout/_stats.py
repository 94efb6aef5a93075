# SPDX-License-Identifier: Apache-2.0
"""`callout.stats`."""

from __future__ import annotations

from typing import Any, TypedDict

from . import _ext
from ._host_callback.counts import print_counts


class CallbackStats(TypedDict):
    """Counters of all callbacks of one label, since the process began."""

    calls: int
    bytes: int
    host_seconds: float
    drops: int
    skips: int
    errors: int


class QueueStats(TypedDict):
    """One tap queue."""

    lane: str
    device: int
    pending_bytes: int
    high_water_bytes: int
    capacity_bytes: int
    blocked: int


class Stats(TypedDict):
    """What `stats()` returns."""

    callbacks: dict[str, CallbackStats]
    queues: list[QueueStats]
    live: dict[str, int]
    prints: dict[str, int]


def stats() -> Stats:
    """Counters of every callback by label, of every queue, and of live objects.

    Per callback: `calls` that ran (for taps: records delivered), `bytes` of their operands and results, `host_seconds`
    inside them, `drops` (records that a full queue did not take), `skips` (records that `every` or `min_interval` left
    out), `errors`. Per queue: lane ("python" or "native"), device ordinal, bytes. `live`: objects of the core that exist
    now. `prints`: values that `host_callback.id_print` wrote, by who made their text: the core ("native") or NumPy.
    Thread-safe; the numbers may be of slightly different moments.
    """
    result: Any = {
        "callbacks": _ext.callback_statistics(),
        "queues": _ext.queue_statistics(),
        "live": _ext.live_counts(),
        "prints": print_counts(),
    }
    checked: Stats = result
    return checked
