# SPDX-License-Identifier: Apache-2.0
"""How many values `id_print` wrote, by who made their text."""

from __future__ import annotations

import threading

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
