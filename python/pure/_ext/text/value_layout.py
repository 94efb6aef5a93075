# SPDX-License-Identifier: Apache-2.0
"""The text of a tree of values from the texts of its leaves, on one line where it fits and else on several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TEXT, LEAF, BREAK, OPEN, CLOSE = range(5)
_LINE_WIDTH = 80


class ValueLayout:
    """(kind, text, number) pieces: a text, a leaf by its number, a break with its indent, the ends of a group.

    The breaks of a group are spaces if all of it fits on the line, and else new lines.
    """

    def __init__(self, pieces: Sequence[tuple[int, str, int]]):
        if any(not TEXT <= kind <= CLOSE for kind, _, _ in pieces):
            raise ValueError("no kind of piece")
        self._pieces = list(pieces)
        self._leaves = max((number + 1 for kind, _, number in pieces if kind == LEAF), default=0)

    def join(self, leaves: Sequence[str]) -> str:
        """The text, from those of the leaves."""
        if len(leaves) < self._leaves:
            raise ValueError("not a text for every leaf")
        out: list[str] = []
        column = 0
        on_one_line: list[bool] = []
        for i, (kind, text, number) in enumerate(self._pieces):
            if kind == OPEN:
                fits = column + self._width(i, leaves) <= _LINE_WIDTH
                on_one_line.append((bool(on_one_line) and on_one_line[-1]) or fits)
            elif kind == CLOSE:
                on_one_line.pop()
            elif kind == BREAK and not (on_one_line and on_one_line[-1]):
                out.append("\n" + " " * number)
                column = number
            else:
                part = text if kind == TEXT else leaves[number] if kind == LEAF else " "
                out.append(part)
                column += len(part)
        return "".join(out)

    def _width(self, begin: int, leaves: Sequence[str]) -> int:
        """The width on one line of the group that opens there."""
        width = depth = 0
        for kind, text, number in self._pieces[begin:]:
            depth += (kind == OPEN) - (kind == CLOSE)
            width += (kind == BREAK) + (len(text) if kind == TEXT else len(leaves[number]) if kind == LEAF else 0)
            if depth == 0:
                break
        return width

    def text(self, arrays: Sequence[Any], threshold: int, float32_exponents_from: float) -> str | None:
        """None: all arrays are left to NumPy."""
        del arrays, threshold, float32_exponents_from
        return None
