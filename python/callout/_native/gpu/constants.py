# SPDX-License-Identifier: Apache-2.0
"""Values that a kernel is given with each launch, as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .parameter import Parameter


def constant_bytes(error: Callable[[str], Exception], declared: Parameter, value: Any) -> bytes:
    """`value` as the parameter's type. `error` makes the exception that is raised if it is none."""
    if isinstance(value, jax.core.Tracer):
        raise error(
            f"constant {declared.name!r} is known when the program runs only; pass it as an array, by a pointer"
        )
    if declared.dtype is None:
        if isinstance(value, bytes):
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tobytes()
        raise error(
            f"constant {declared.name!r} is of a type that JAX has no name for: pass bytes or a NumPy value, got {value!r}"
        )
    try:
        return _exact(np.asarray(value), declared.dtype).tobytes()
    except (ValueError, TypeError, OverflowError) as reason:
        raise error(f"constant {declared.name!r} must be {declared.dtype}, got {value!r}") from reason


# A value of a kind may become one of these: numbers lose digits, but not their fraction, sign or imaginary part.
_WIDER = {"b": "biufc", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}


def _exact(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    kind = "f" if dtype.kind == "V" else dtype.kind  # bfloat16 and float8
    if array.ndim != 0 or kind not in _WIDER.get("f" if array.dtype.kind == "V" else array.dtype.kind, ""):
        raise ValueError
    converted = array.astype(dtype)
    if kind in "iu" and converted != array:
        raise ValueError
    return converted
