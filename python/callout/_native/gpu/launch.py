# SPDX-License-Identifier: Apache-2.0
"""How many threads a kernel is launched with, checked when it is traced."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

Extents = tuple[int, int, int]
# As users say them: functions get the arguments and the results, with shape and dtype.
Dims = int | Sequence[int] | Callable[..., int | Sequence[int]]

_AXES = "xyz"
_MOST_THREADS = 1024
_MOST_BLOCK = (1024, 1024, 64)
_MOST_GRID = (2**31 - 1, 65535, 65535)
# Blocks of launch_dims with two and three dimensions.
_BLOCKS = {2: (16, 16), 3: (8, 8, 4)}


def launch_shape(
    where: str,
    args: Sequence[Any],
    results: Sequence[Any],
    *,
    grid: Dims | None = None,
    block: Dims | None = None,
    launch_dims: Dims | None = None,
    threads_per_block: int = 256,
) -> tuple[Extents, Extents]:
    """Grid and block of a launch. One of no threads has an extent of 0 in its grid, and a block that is none.

    Args:
        where: what errors begin with.
        args: the arguments: shape and dtype.
        results: the results, likewise.
        grid: blocks along x, y and z: a number, up to three of them, or a function of `*args, *results` that returns such.
        block: threads of a block, likewise.
        launch_dims: instead of both, the threads that are wanted, likewise. Blocks of `threads_per_block`, 16 x 16 or
            8 x 8 x 4 threads, but never larger than that, cover them.
        threads_per_block: for `launch_dims` of one dimension.

    Raises:
        TypeError: a number is none.
        ValueError: neither is given, or both; or no GPU can launch that.
    """
    avals = (*args, *results)
    if launch_dims is None:
        if grid is None or block is None:
            raise ValueError(
                f"{where}: say how many threads to launch: launch_dims=, or grid= and block=; got "
                f"grid={grid!r}, block={block!r}, launch_dims=None"
            )
        grid, block = _extents(where, "grid", grid, avals), _extents(where, "block", block, avals)
    else:
        if grid is not None or block is not None:
            raise ValueError(f"{where}: launch_dims= replaces grid= and block=; give one or the other")
        dims = _extents(where, "launch_dims", launch_dims, avals)
        grid, block = _cover(dims, _threads(where, threads_per_block))
    _check_limits(where, "block", block, _MOST_BLOCK)
    _check_limits(where, "grid", grid, _MOST_GRID)
    if math.prod(block) > _MOST_THREADS:
        raise ValueError(f"{where}: a block has at most {_MOST_THREADS} threads, got {math.prod(block)}: {block}")
    if 0 in block:
        raise ValueError(f"{where}: a block has at least one thread, got {block}")
    return _three(grid), _three(block)


def _three(extents: Sequence[int]) -> Extents:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _integer(where: str, name: str, value: Any, kind: str = "integers") -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{where}: {name} must be {kind}, got {value!r}") from None


def _threads(where: str, value: Any) -> int:
    threads = _integer(where, "threads_per_block", value, "an integer")
    if not 1 <= threads <= _MOST_THREADS:
        raise ValueError(f"{where}: threads_per_block must be from 1 to {_MOST_THREADS}, got {threads}")
    return threads


def _extents(where: str, name: str, value: Any, avals: Sequence[Any]) -> tuple[int, ...]:
    if callable(value):
        value = value(*avals)
    items = value if isinstance(value, (tuple, list)) else (value,)
    extents = tuple(_integer(where, name, item) for item in items)
    if not 1 <= len(extents) <= 3:
        raise ValueError(f"{where}: {name} must have one to three dimensions, got {len(extents)}: {extents}")
    if min(extents) < 0:
        raise ValueError(f"{where}: {name} must not be negative, got {extents}")
    return extents


def _cover(dims: tuple[int, ...], threads: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Grid and block of at least `dims` threads."""
    wanted = _BLOCKS.get(len(dims), (threads,))
    block = tuple(max(1, min(most, dim)) for most, dim in zip(wanted, dims, strict=True))
    return tuple(-(-dim // size) for dim, size in zip(dims, block, strict=True)), block


def _check_limits(where: str, name: str, extents: Sequence[int], most: Sequence[int]) -> None:
    for axis, extent, limit in zip(_AXES, extents, most, strict=False):
        if extent > limit:
            raise ValueError(f"{where}: {name}.{axis} is at most {limit}, got {extent}: {tuple(extents)}")
