# SPDX-License-Identifier: Apache-2.0
"""Formats numbers and tables for people."""

from __future__ import annotations

import html
from collections.abc import Sequence

_DURATIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def duration(seconds: float) -> str:
    """Returns text such as `12.3 us`."""
    if seconds == 0:
        return "0"
    factor, unit = next((each for each in _DURATIONS if seconds >= each[0]), _DURATIONS[-1])
    return f"{_three_digits(seconds / factor)} {unit}"


def size(number: float) -> str:
    """Returns text such as `12.3 kB`."""
    factor, unit = next((each for each in _SIZES if number >= each[0]), (1.0, "B"))
    return f"{_three_digits(number / factor)} {unit}"


def _three_digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def percent(share: float) -> str:
    """Returns text such as `12 %`."""
    return f"{100 * share:.0f} %" if share >= 0.01 or share == 0 else "<1 %"


def aligned(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Aligns the columns of a table: the first one to the left, the others to the right."""
    lines = [[" ".join(str(cell).splitlines()) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    texts = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def as_html(text: str) -> str:
    """Returns a text of columns as HTML for notebooks."""
    return f"<pre>{html.escape(text)}</pre>"
