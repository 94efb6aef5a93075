# SPDX-License-Identifier: Apache-2.0
"""Numbers and nested arrays for sinks, with the fewest digits that read back as the same number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import kind_of
from ..failures import INVALID_ARGUMENT, fail

_THRESHOLD = 1000  # elements, as NumPy's
_EDGE = 3
Writer = Callable[[Any], str]


def shortest(value: Any) -> str:
    """A finite number: as it is or with an exponent, whichever is shorter."""
    mantissa, _, exponent_text = np.format_float_scientific(value, trim="-").partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    exponent = int(exponent_text)
    digits = mantissa.replace(".", "")
    if exponent >= len(digits) - 1:
        fixed = str(abs(int(value)))
    elif exponent >= 0:
        fixed = f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    else:
        fixed = f"0.{'0' * (-exponent - 1)}{digits}"
    scientific = f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + (fixed if len(fixed) <= len(scientific) else scientific)


def _float(value: Any, json: bool) -> str:
    if math.isnan(value):
        return '"NaN"' if json else "nan"
    if math.isinf(value):
        name = "Infinity" if json else "inf"
        text = f"-{name}" if value < 0 else name
        return f'"{text}"' if json else text
    if value == 0 and math.copysign(1, value) < 0:
        return "-0.0" if json else "-0"
    return shortest(value)


def _complex(value: Any, json: bool) -> str:
    real, imaginary = _float(value.real, json), _float(value.imag, json)
    if json:
        return f"[{real},{imaginary}]"
    return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"


def element_writer(array: np.ndarray, json: bool) -> Writer:
    """What writes one element of an array like this. Failure for dtypes that XLA does not have."""
    kind = kind_of(array.dtype)
    if kind == "b":
        return lambda value: (("true", "false") if json else ("True", "False"))[not value]
    if kind in ("i", "u"):
        return lambda value: str(int(value))
    if kind == "c":
        return lambda value: _complex(value, json)
    if kind != "f":
        fail(INVALID_ARGUMENT, f"callout: cannot write the text of an array of {array.dtype}")
    if array.dtype.kind == "V":  # of ml_dtypes, which NumPy does not write
        return lambda value: _float(np.float32(value), json)
    return lambda value: _float(value, json)


def nested(array: np.ndarray, json: bool) -> str:
    """A bare number for an array without dimensions, nested lists else."""
    cut = not json and array.size > _THRESHOLD
    return _nested(array, element_writer(array, json), "," if json else " ", cut)


def _nested(array: Any, write: Writer, separator: str, cut: bool) -> str:
    if np.ndim(array) == 0:
        return write(array[()] if isinstance(array, np.ndarray) else array)
    extent = len(array)
    if not cut or extent <= 2 * _EDGE:
        return f"[{separator.join(_nested(part, write, separator, cut) for part in array)}]"
    begin = separator.join(_nested(part, write, separator, cut) for part in array[:_EDGE])
    end = separator.join(_nested(part, write, separator, cut) for part in array[-_EDGE:])
    return f"[{begin} ... {end}]"
