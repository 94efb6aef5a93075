# SPDX-License-Identifier: Apache-2.0
"""What a tap does with a target that is several, or that knows which values it takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .function_targets import TapKeywords
from .sink import branches_of, callback_of, is_sink


def _is_function(target: Any) -> bool:
    return not isinstance(target, str) and callback_of(target) is None


def receivers(target: Any, wanted: TapKeywords) -> list[tuple[Any, TapKeywords]]:
    """Returns the targets that are tapped one after the other, and which keywords each gets: of a tee, its functions do."""
    branches = branches_of(target)
    if branches is None:
        return [(target, wanted)]
    if not any(map(_is_function, branches)):
        wanted.refuse()
    return [(branch, wanted if _is_function(branch) else TapKeywords()) for branch in branches]


@dataclasses.dataclass(frozen=True)
class SentLeaves:
    """What a tap sends, for a sink that does not take everything."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    """None where that is not known: of shards, of symbolic dimensions."""
    label: str
    is_exact: bool
    """Whether this is what arrives. Else `vmap` may put axes in front of the shapes, but takes none away."""


def check_leaves(
    target: Any, names: Sequence[str], values: Sequence[Any], *, label: str, is_whole: bool, is_exact: bool
) -> None:
    """Has a sink that cannot take every value look at what it will get, before the program runs.

    `is_whole`: what arrives has these shapes; it may be shards of them.
    """
    check = target._callout_check if is_sink(target) else None
    if check is not None:
        shapes = tuple(_shape(value) if is_whole else None for value, _ in zip(values, names, strict=False))
        dtypes = tuple(map(_dtype_name, values[: len(names)]))
        label = label or target._callout_callback.label
        check(SentLeaves(tuple(names), dtypes, shapes, label, is_exact))


def _shape(value: Any) -> tuple[int, ...] | None:
    shape = value.shape if hasattr(value, "shape") else np.shape(value)
    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        return None  # its data arrive
    return shape if all(isinstance(extent, int) for extent in shape) else None


def _dtype_name(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str((jax.numpy.result_type(value) if dtype is None else dtype).name)
