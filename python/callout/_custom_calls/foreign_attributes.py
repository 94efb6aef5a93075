# SPDX-License-Identifier: Apache-2.0
"""Attributes of a call as parameters of a primitive: compared by type and value, so that 1, True and 1.0 are three."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

Frozen = tuple[tuple[str, Any], ...]


class Constant:
    """Holds an attribute's value as a parameter of a primitive, which is compared by its bytes."""

    __slots__ = ("_key", "value")

    def __init__(self, value: str | np.ndarray | np.generic):
        is_array = isinstance(value, np.ndarray)  # an array of no dimensions is not a number
        if isinstance(value, np.ndarray):
            value = value.copy()  # what becomes of the caller's is of no matter
            value.setflags(write=False)
        self.value = value
        self._key = value if isinstance(value, str) else (is_array, value.dtype.str, value.shape, value.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def freeze(where: str, attributes: Mapping[str, Any]) -> Frozen:
    """Makes attributes hashable, for a program. TypeError for a value that cannot be in one."""
    return tuple((name, _freeze(where, name, attributes[name])) for name in sorted(attributes))


def _freeze(where: str, name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return freeze(f"{where}: attribute '{name}'", value)
    if isinstance(value, jax.Array):
        raise TypeError(f"{where}: attribute '{name}' is a jax.Array; pass it as an argument, or as a numpy.ndarray")
    if isinstance(value, (np.ndarray, np.generic)):
        return Constant(value)
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"{where}: attribute '{name}' cannot be hashed: {value!r}") from None
    return type(value), value


def thaw(frozen: Frozen) -> dict[str, Any]:
    """Returns what `freeze` was given."""
    return {name: _thaw(value) for name, value in frozen}


def _thaw(value: Any) -> Any:
    if isinstance(value, Constant):
        return value.value
    if len(value) == 2 and isinstance(value[0], type):
        return value[1]
    return thaw(value)
