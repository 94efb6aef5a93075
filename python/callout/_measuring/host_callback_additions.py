# SPDX-License-Identifier: Apache-2.0
"""Adds the settings, the logger and the counters of `callout.host_callback`, even if it is not imported."""

from __future__ import annotations

import threading

from .._base import config, loggers
from . import stats

logger, LOG_SOURCE = loggers.add("callout.host_callback")

lock = threading.RLock()  # reentrant: held while a print writes, and a stream's `write` may print
_counts = {"native": 0, "numpy": 0}  # writes require `lock`


def count(path: str) -> None:
    """Counts a print that was formatted by `path`: "native" or "numpy". Requires `lock`."""
    _counts[path] += 1


def print_counts() -> dict[str, int]:
    """Returns the number of prints by each path. Thread-safe. Takes no lock, so that it works in a forked child."""
    return dict(_counts)


def reset_print_counts() -> None:
    """Resets the counts to 0. Thread-safe."""
    with lock:
        _counts.update(dict.fromkeys(_counts, 0))


# The aliases are flags that jax.config no longer has, and their environment variables.
config.add(
    flags={
        "host_callback_inline": (False, "host_callback: eager taps run in the caller's stack."),
        "host_callback_legacy": (True, "host_callback: the original's behaviour, not the flavours'."),
        "host_callback_outfeed": (False, "host_callback: accepted; there is one mechanism."),
    },
    aliases={
        "jax_host_callback_max_queue_byte_size": "queue_bytes",
        "jax_host_callback_inline": "host_callback_inline",
        "jax_host_callback_legacy": "host_callback_legacy",
        "jax_host_callback_outfeed": "host_callback_outfeed",
    },
)
stats.add(
    stats.Counts(
        "prints",
        print_counts,
        reset_print_counts,
        stats.Family(
            "callout_printed_values_total", "formatter", "Values that id_print wrote, by who made their text."
        ),
    )
)
