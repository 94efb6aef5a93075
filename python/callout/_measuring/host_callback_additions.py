# SPDX-License-Identifier: Apache-2.0
"""What `callout.host_callback` adds to the settings, the loggers and the statistics, whether it is imported or not."""

from __future__ import annotations

import threading

from .._base import config, loggers
from . import stats

logger, LOG_SOURCE = loggers.add("callout.host_callback")

lock = threading.RLock()  # also around what a print writes, which may print itself
_counts = {"native": 0, "numpy": 0}  # written under `lock`


def count(path: str) -> None:
    """Counts a print whose text "native" or "numpy" made. Requires `lock`."""
    _counts[path] += 1


def print_counts() -> dict[str, int]:
    """Returns how many each of the two has made so far. Takes no lock: thread-safe, and in a forked child too."""
    return dict(_counts)


def reset_print_counts() -> None:
    """Begins anew. Thread-safe."""
    with lock:
        _counts.update(dict.fromkeys(_counts, 0))


# The aliases are the flags that jax.config no longer knows, and the environment variables that went with them.
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
