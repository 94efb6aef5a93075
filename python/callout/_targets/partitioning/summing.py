# SPDX-License-Identifier: Apache-2.0
"""The bits that one device has, on every device: the sum with the zeros of the others."""

from __future__ import annotations

import math
import re
from typing import Any

from jax.extend.mlir.dialects import stablehlo as ops

from .stablehlo import all_reduce, array_type, dims_of, element_of

_NARROW = ("i1", "i2", "i4", "ui2", "ui4")
LESS_THAN_A_BYTE = (*_NARROW, "f4E2M1FN")
_WIDENED = 16384  # elements that are summed in 32 bits


def sum_of_bits(value: Any) -> Any:
    """Sums a value as bits, because adding zero changes a negative zero.

    In 32 bits where it can be: XLA makes one sum of those of a type, and in each the devices' threads meet.
    """
    kind, element = value.type, element_of(value.type)

    def like(other: str) -> Any:
        return array_type(dims_of(kind), other)

    if element.startswith("complex"):
        return ops.complex(sum_of_bits(ops.real(value)), sum_of_bits(ops.imag(value)))
    if element in _NARROW:
        return ops.convert(kind, sum_of_bits(ops.convert(like("ui8"), value)))
    width = int(re.findall(r"\d+", element)[0])
    if not element.startswith("ui"):
        return ops.bitcast_convert(kind, sum_of_bits(ops.bitcast_convert(like(f"ui{width}"), value)))
    if width == 64:
        halves = ops.bitcast_convert(array_type([*dims_of(kind), 2], "ui32"), value)
        return ops.bitcast_convert(kind, all_reduce(halves, "add"))
    if width < 32 and math.prod(dims_of(kind)) <= _WIDENED:
        return ops.convert(kind, all_reduce(ops.convert(like("ui32"), value), "add"))
    return all_reduce(value, "add")
