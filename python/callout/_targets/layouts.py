# SPDX-License-Identifier: Apache-2.0
"""Layouts: users give axes from major to minor, XLA takes them from minor to major."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

MinorToMajor = tuple[int, ...]


@functools.cache
def row_major(rank: int) -> MinorToMajor:
    """Returns XLA's default layout."""
    return tuple(reversed(range(rank)))


def minor_to_major(where: str, rank: int, layout: Any) -> MinorToMajor:
    """Reads `layout`: None for row-major, an object with `major_to_minor`, or axes, which may be negative."""
    if layout is None:
        return row_major(rank)
    if hasattr(layout, "major_to_minor"):
        if getattr(layout, "tiling", None) is not None:
            raise ValueError(f"{where}: a foreign function cannot have a layout with tiling")
        layout = layout.major_to_minor
    axes = [int(axis) + rank if int(axis) < 0 else int(axis) for axis in layout]
    if sorted(axes) != list(range(rank)):
        raise ValueError(f"{where}: {tuple(layout)} is not a layout of an array of rank {rank}")
    return tuple(reversed(axes))


def of_all(where: str, what: str, avals: Sequence[Any], layouts: Sequence[Any] | None) -> tuple[MinorToMajor, ...]:
    """Returns the layout of each of `avals`."""
    ranks = [len(getattr(aval, "shape", ())) for aval in avals]
    if layouts is None:
        return tuple(map(row_major, ranks))
    if len(layouts) != len(ranks):
        raise ValueError(
            f"{where}: the number of {what}s ({len(ranks)}) must equal the number of {what} layouts ({len(layouts)})"
        )
    return tuple(minor_to_major(where, rank, layout) for rank, layout in zip(ranks, layouts, strict=True))


def with_batch(layout: MinorToMajor) -> MinorToMajor:
    """Returns the layout of an array with one more leading dimension, the most major."""
    return (*(axis + 1 for axis in layout), 0)


def is_row_major(layout: MinorToMajor) -> bool:
    """Returns True for XLA's default layout."""
    return layout == row_major(len(layout))
