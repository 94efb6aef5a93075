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
    """How many each of the two made since the process began. Thread-safe, and in a forked child too: takes no lock."""
    return dict(_counts)


def reset_print_counts() -> None:
    """Begins anew. Thread-safe."""
    with lock:
        _counts.update(dict.fromkeys(_counts, 0))
