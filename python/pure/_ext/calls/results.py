# SPDX-License-Identifier: Apache-2.0
"""What a callback returned, as the arrays that its program declares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..dtypes import INVALID_NAME, bits_of, kind_of, shape_text, short_name
from ..failures import INVALID_ARGUMENT, Failure

_NARROWED = {("f64", "f32"), ("s64", "s32"), ("u64", "u32"), ("c128", "c64")}
_ORDER = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}  # each kind of numbers holds those before it
_NUMBERS = {bool: 0, int: 1, float: 2, complex: 3}


class Mismatch(Exception):  # noqa: N818 - turned into a Failure
    """Says what was expected and what came."""


def is_leaf(value: Any) -> bool:
    """An array, or a NumPy scalar: a leaf whatever the structure."""
    return isinstance(value, (np.ndarray, np.generic))


def is_iterator(value: Any) -> bool:
    """An iterator, which JAX has no structure for and warns of."""
    return isinstance(value, Iterator)


def is_iterator_or_none(value: Any) -> bool:
    """An iterator or None."""
    return value is None or is_iterator(value)


def stored(value: Any, shape: Sequence[int], dtype: np.dtype[Any], canonicalize: bool) -> np.ndarray:
    """A dense array of the value's own. Mismatch if it is none of that shape and dtype."""
    if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape:
        return value.copy()
    shape = tuple(shape)
    if isinstance(value, np.generic) and value.dtype == dtype and not shape:
        return np.array(value)
    if value is None:
        raise Mismatch(f"expected {shape_text(dtype, shape)}, got None: did the function forget to return it?")
    if not shape and type(value) in _NUMBERS:
        return _stored_number(value, dtype)
    array = np.asarray(value)
    if array.shape != shape or not _fits(array.dtype, dtype, canonicalize):
        raise Mismatch(f"expected {shape_text(dtype, shape)}, got {_described(array)}")
    if array.dtype == dtype:
        return np.array(array, order="C")
    cast = array.astype(dtype, order="C")
    if kind_of(dtype) in ("i", "u") and not np.array_equal(array, cast):
        raise Mismatch(f"a value is out of the range of {short_name(dtype)}")
    return cast


def _described(array: np.ndarray) -> str:
    if array.dtype == object:
        return f"{array.dtype}[{','.join(map(str, array.shape))}]"
    return shape_text(array.dtype, array.shape) or INVALID_NAME


def _fits(got: np.dtype[Any], expected: np.dtype[Any], canonicalize: bool) -> bool:
    return got == expected or (canonicalize and (short_name(got), short_name(expected)) in _NARROWED)


def _stored_number(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A Python number as an array without dimensions."""
    out_of_range = Mismatch(f"a value is out of the range of {short_name(dtype)}")
    kind = kind_of(dtype)
    if kind in ("i", "u") and isinstance(value, int):
        bits = bits_of(dtype)
        low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if kind == "i" else (0, 1 << bits)
        if not low <= value < high:
            raise out_of_range
    number: Any = value
    if isinstance(value, int) and not -(2**63) <= value < 2**64 and _ORDER[kind] >= _ORDER["f"]:
        try:
            number = float(value)
        except OverflowError:
            raise out_of_range from None
    array = np.asarray(number)
    if _NUMBERS[type(value)] > _ORDER[kind]:
        raise Mismatch(f"expected {shape_text(dtype, ())}, got {_described(array)}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype)
    if kind == "f" and not _survived(float(value), cast):
        raise out_of_range
    return cast


def _survived(number: float, cast: np.ndarray) -> bool:
    """Floats are rounded, to an infinity too where there is one; a type without one must not make a number of it."""
    with np.errstate(all="ignore"):
        kept = float(cast)
    if math.isnan(number) or math.isnan(kept):
        return math.isnan(number) and math.isnan(kept)
    if math.isinf(number):
        return number == kept
    if cast.dtype.name != "float4_e2m1fn":
        return True
    finfo: Any = ml_dtypes.finfo
    info = finfo(cast.dtype)
    largest = float(info.max)
    # The largest number and half a step: from there on it would have been rounded up.
    return abs(number) < math.ldexp(2 - math.ldexp(1, -info.nmant - 1), math.frexp(largest)[1] - 1)


def stored_leaves(sequence: Any, specs: Sequence[tuple[Any, Any]], canonicalize: bool) -> list[np.ndarray]:
    """What `stored` makes of each of a sequence, of as many as are declared. Failure with what does not fit."""
    if not specs:
        return []  # a registered function's result that nobody declared
    is_sequence = isinstance(sequence, (tuple, list))
    items = tuple(sequence) if is_sequence else ()
    if len(items) != len(specs):
        got = f"one of {len(items)}" if is_sequence else f"an object of type {type(sequence).__name__}"
        raise Failure(INVALID_ARGUMENT, f"its result does not fit: expected a tuple of {len(specs)}, got {got}")
    results = []
    for i, (item, (shape, dtype)) in enumerate(zip(items, specs, strict=True)):
        try:
            results.append(stored(item, tuple(shape), np.dtype(dtype), canonicalize))
        except Mismatch as mismatch:
            raise Failure(INVALID_ARGUMENT, f"its result {i} does not fit: {mismatch}") from None
    return results
