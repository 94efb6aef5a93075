# SPDX-License-Identifier: Apache-2.0
"""What all prints share: how their two texts are written, and NumPy's own print options."""

from __future__ import annotations

from typing import Any

from . import counts

# Print options that change an array's text, with what they are if nobody sets them; but for the threshold.
DEFAULT_OPTIONS: dict[str, Any] = {
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "floatmode": "maxprec",
    "formatter": None,
    "legacy": False,
    "edgeitems": 3,
}


def emit(path: str, head: str, text: str, stream: Any) -> None:
    """Writes `head`, if it is not empty, and `text` to `stream`, or prints them. Counts the print. Thread-safe."""
    with counts.lock:
        counts.count(path)
        for line in (head, text) if head else (text,):
            if stream is None:
                print(line)  # noqa: T201 - that is what it is for
            else:
                stream.write(line + "\n")
