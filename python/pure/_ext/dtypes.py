# SPDX-License-Identifier: Apache-2.0
"""XLA's names of dtypes, and how many bytes XLA's buffers have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .tables import DTYPE_NAMES, SUB_BYTE_BITS

INVALID_NAME = "an unknown dtype"


def _dtype(name: str) -> np.dtype[Any] | None:
    kind = getattr(ml_dtypes, name, None)
    try:
        return np.dtype(name if kind is None else kind)
    except TypeError:  # of a newer ml_dtypes
        return None


_SHORT: dict[np.dtype[Any], str] = {
    dtype: short for short, name in DTYPE_NAMES.items() if (dtype := _dtype(name)) is not None
}


def short_name(dtype: np.dtype[Any]) -> str | None:
    """XLA's, "f32"; None for what XLA does not have."""
    return _SHORT.get(dtype)


def bits_of(dtype: np.dtype[Any]) -> int:
    """The bits of one element in a buffer of XLA's."""
    return SUB_BYTE_BITS.get(dtype.name, 8 * dtype.itemsize)


def kind_of(dtype: np.dtype[Any]) -> str:
    """'b' for booleans, 'i' and 'u' for integers, 'f' for floats, 'c' for complex numbers; '' for others."""
    short = _SHORT.get(dtype, "")
    if short == "bool":
        return "b"
    letters = {"s": "i", "u": "u", "f": "f", "b": "f", "c": "c"}
    return letters.get(short[:1], "")


def packed_bytes(array: np.ndarray) -> int:
    """The bytes of XLA's buffer, where elements of less than a byte are packed."""
    bits = SUB_BYTE_BITS.get(array.dtype.name) if array.dtype.kind == "V" else None
    return array.nbytes if bits is None else -(-array.size * bits // 8)


def total_bytes(arrays: Sequence[np.ndarray]) -> int:
    """The bytes of all arrays together."""
    return sum(map(packed_bytes, arrays))


def shape_text(dtype: np.dtype[Any], shape: Sequence[int]) -> str:
    """Writes an array's type as "f32[8,4]"."""
    return f"{_SHORT.get(dtype, dtype)}[{','.join(map(str, shape))}]"


def shape_of(array: np.ndarray) -> str:
    """Writes the type of `array` as `shape_text` does."""
    return shape_text(array.dtype, array.shape)


def first_integer(array: np.ndarray) -> int | None:
    """The first element, if they are integers of whole bytes."""
    if array.size == 0 or kind_of(array.dtype) not in ("i", "u") or bits_of(array.dtype) < 8:
        return None
    return int(array.flat[0])


def unravel(flat: int, shape: Sequence[int]) -> list[int]:
    """The index of the element at this row-major place."""
    index = [0] * len(shape)
    for axis in range(len(shape) - 1, -1, -1):
        flat, index[axis] = divmod(flat, shape[axis])
    return index


def index_text(index: Sequence[int]) -> str:
    """Writes an index as "[1,2]"."""
    return f"[{','.join(map(str, index))}]"


def element_count(shape: Sequence[int]) -> int:
    """The number of elements of an array of this shape."""
    return math.prod(shape)
