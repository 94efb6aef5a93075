# SPDX-License-Identifier: Apache-2.0
"""Arrays as NumPy writes them with its own options, whatever this thread's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import bits_of, kind_of
from .elements import nested

_DEFAULTS: dict[str, Any] = {
    "max_line_width": 75,
    "precision": 8,
    "suppress_small": False,
    "threshold": 1000,
    "edgeitems": 3,
    "floatmode": "maxprec",
    "sign": "-",
    "legacy": False,
}


def plain(array: np.ndarray) -> str:
    """The array as `str` writes it, where NumPy lays it out, else with the fewest digits; the same with every NumPy."""
    kind = kind_of(array.dtype)
    if array.ndim == 0 and kind in ("f", "c") and bits_of(array.dtype) > 8:
        return _scalar(array[()], kind)
    if kind in ("b", "i", "u") or array.dtype in (np.float32, np.float64):
        return str(array[()]) if array.ndim == 0 else np.array2string(array, **_DEFAULTS)
    return nested(array, json=False)


def _scalar(value: Any, kind: str) -> str:
    """The number as Python writes it, with the digits of its own type."""
    if kind == "f":
        return _real(value, "0")
    imaginary = _real(value.imag, "-")
    if value.real == 0 and not np.signbit(value.real):
        return f"{imaginary}j"
    sign = "" if imaginary.startswith("-") else "+"
    return f"({_real(value.real, '-')}{sign}{imaginary}j)"


def _real(value: Any, trim: Any) -> str:
    """`trim`: "0" leaves a digit behind the point."""
    number = value if isinstance(value, (np.float32, np.float64, np.float16)) else np.float32(value)
    if not np.isfinite(number):
        return str(float(number))
    if number == 0 or 1e-4 <= abs(float(number)) < 1e16:
        return np.format_float_positional(number, trim=trim)
    return np.format_float_scientific(number, trim="-", exp_digits=2)


def worded(array: np.ndarray, word: Callable[[Any], str]) -> str:
    """The layout of NumPy's, with words of one's own."""
    return word(array[()]) if array.ndim == 0 else np.array2string(array, formatter={"all": word}, **_DEFAULTS)
