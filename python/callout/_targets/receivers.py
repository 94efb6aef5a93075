# SPDX-License-Identifier: Apache-2.0
"""What a tap does with a target that is several, or that knows which values it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .functions import TapKeywords


def _is_function(target: Any) -> bool:
    return not isinstance(target, str) and not hasattr(target, "_callout_callback")


def receivers(target: Any, wanted: TapKeywords) -> list[tuple[Any, TapKeywords]]:
    """The targets that are tapped one after the other, and which keywords each gets: of a tee, only its functions do."""
    branches = getattr(target, "_callout_branches", None)
    if branches is None:
        return [(target, wanted)]
    if not any(map(_is_function, branches)):
        wanted.refuse()
    return [(branch, wanted if _is_function(branch) else TapKeywords()) for branch in branches]


def check_leaves(target: Any, names: Sequence[str], values: Sequence[Any], is_whole: bool) -> None:
    """Has a sink that cannot take every value look at the names, dtypes and shapes, before the program runs.

    `is_whole`: what arrives has these shapes; it may be shards of them.
    """
    check = getattr(target, "_callout_check", None)
    if check is not None:
        shapes = tuple(np.shape(value) if is_whole else None for value, _ in zip(values, names, strict=False))
        check(tuple(names), tuple(map(_dtype_name, values)), shapes)


def _dtype_name(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str((jax.numpy.result_type(value) if dtype is None else dtype).name)
