# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: parameters by which a kernel copies boxes of an array by the tensor memory accelerator (TMA)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

BYTES = 128  # of a CUtensorMap
_MOST_AXES = 5
_MOST_OF_A_BOX = 256
_MOST_OF_AN_AXIS = 2**32
_UNIT = 16  # bytes; strides, and the boxes' innermost extent, must be multiples
# The values of CUtensorMapDataType. Copies do not depend on signs.
_TYPES = {
    np.dtype(dtype): number
    for number, dtypes in enumerate(
        (
            (np.uint8, np.int8, np.bool_, jnp.float8_e4m3fn, jnp.float8_e5m2),
            (np.uint16, np.int16),
            (np.uint32,),
            (np.int32,),
            (np.uint64,),
            (np.int64,),
            (np.float16,),
            (np.float32,),
            (np.float64,),
            (jnp.bfloat16,),
        )
    )
    for dtype in dtypes
}
_FIRST_FLOAT = 6
# The values of settings, in the order of CUDA's enumerations.
_SWIZZLES = (0, 32, 64, 128)
_PROMOTIONS = (0, 64, 128, 256)
_SETTINGS = frozenset(("argument", "result", "box", "step", "swizzle", "l2_promotion", "nan_fill"))

Error = Callable[[str], Exception]


@dataclasses.dataclass(frozen=True)
class TensorMap:
    """The user's settings of a tensor map, and the index of its operand (arguments first)."""

    name: str
    operand: int
    chosen: Mapping[str, Any]

    def numbers(self, where: str, args: Sequence[Any], results: Sequence[Any]) -> list[int]:
        """Returns the numbers of the map for callout.v1.image, without its position.

        Raises:
            ValueError: the accelerator does not support such a map.
        """

        def error(text: str) -> ValueError:
            return ValueError(f"{where}: tensor map {self.name!r}: {text}")

        aval = (*args, *results)[self.operand]
        shape, dtype = tuple(aval.shape), np.dtype(aval.dtype)
        if dtype not in _TYPES:
            raise error(f"the accelerator has no elements of {dtype}")
        if not 1 <= len(shape) <= _MOST_AXES or 0 in shape:
            raise error(f"the array must have 1 to {_MOST_AXES} axes and elements, got shape {shape}")
        if max(shape) > _MOST_OF_AN_AXIS:
            raise error(f"an axis has at most 2^32 elements, got shape {shape}")
        box = self.chosen.get("box")
        box = _extents(error, "box", box(*args, *results) if callable(box) else box, len(shape), _MOST_OF_A_BOX)
        step = _extents(error, "step", self.chosen.get("step", (1,) * len(shape)), len(shape), 8)
        if step[-1] != 1:  # CUDA ignores it without interleaved layouts, see cuTensorMapEncodeTiled
            raise error(f"step must be 1 for the last axis, whose elements the accelerator cannot skip, got {step}")
        strides = [dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape) - 1)]
        if wrong := [stride for stride in strides if stride % _UNIT or stride >= 2**40]:
            raise error(f"rows must be multiples of {_UNIT} bytes, got strides of {wrong[0]} in {dtype}{list(shape)}")
        inner = box[-1] * dtype.itemsize
        if inner % _UNIT:
            raise error(f"the box's last axis must be a multiple of {_UNIT} bytes, got {inner}: {box} of {dtype}")
        swizzle = _choice(error, "swizzle", self.chosen.get("swizzle", 0), _SWIZZLES)
        if swizzle and inner > _SWIZZLES[swizzle]:
            raise error(f"with swizzle={_SWIZZLES[swizzle]} the box's last axis has at most so many bytes, got {inner}")
        promotion = _choice(error, "l2_promotion", self.chosen.get("l2_promotion", 0), _PROMOTIONS)
        fill = bool(self.chosen.get("nan_fill", False))
        if fill and _TYPES[dtype] < _FIRST_FLOAT:
            raise error(f"nan_fill is for floats, got {dtype}")
        lists = [number for numbers in (shape, strides, box, step) for number in _from_the_fastest(numbers)]
        return [self.operand, _TYPES[dtype], len(shape), *lists, 0, swizzle, promotion, int(fill)]


def mapped(error: Error, settings: Mapping[str, Any] | None, num_args: int, num_results: int) -> dict[str, TensorMap]:
    """Returns the maps of a call, by their parameters' names. `error` makes the exception for an unknown operand."""
    found = {}
    for name, chosen in (settings or {}).items():
        which = [key for key in ("argument", "result") if key in chosen]
        index = chosen[which[0]] if len(which) == 1 else None
        count = num_args if which == ["argument"] else num_results
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
            raise error(
                f"tensor map {name!r} must be of an argument or of a result: {{'argument': 0, 'box': ...}}, with "
                f"{num_args} arguments and {num_results} results; got {dict(chosen)!r}"
            )
        found[name] = TensorMap(name, index if which == ["argument"] else num_args + index, chosen)
    return found


def check(error: Error, settings: Mapping[str, Any] | None, values: Sequence[str]) -> None:
    """Raises `error`'s exception for maps without a parameter, or with unknown settings."""
    for name, chosen in (settings or {}).items():
        if name not in values:
            raise error(f"there is no parameter {name!r} for a tensor map, but {sorted(values)}")
        if not isinstance(chosen, Mapping) or "box" not in chosen or not set(chosen) <= _SETTINGS:
            raise error(
                f"tensor map {name!r}: expected a dictionary with 'box', of {sorted(_SETTINGS)}; got {chosen!r}"
            )


def _from_the_fastest(numbers: Sequence[int]) -> list[int]:
    """Returns axes' numbers in CUDA's order, fastest axis first, filled up to the largest rank."""
    return [*reversed(numbers), *[0] * (_MOST_AXES - len(numbers))]


def _extents(error: Error, what: str, value: Any, rank: int, most: int) -> tuple[int, ...]:
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    fits = all(isinstance(item, (int, np.integer)) and 1 <= item <= most for item in items)
    if len(items) != rank or not fits:
        raise error(f"{what} must have {rank} numbers from 1 to {most}, one an axis, got {value!r}")
    return tuple(map(int, items))


def _choice(error: Error, what: str, value: Any, choices: Sequence[int]) -> int:
    if value not in choices:
        raise error(f"{what} must be one of {list(choices)}, got {value!r}")
    return choices.index(value)
