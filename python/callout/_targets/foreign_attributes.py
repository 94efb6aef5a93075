# SPDX-License-Identifier: Apache-2.0
"""Makes a call's attributes parameters of a primitive, which are compared exactly: 1, True and 1.0 differ."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np

Frozen = tuple[tuple[str, Any], ...]


def exact_key(value: Any) -> Hashable:
    """Returns a key that is equal only for indistinguishable values, in contrast to 1 and 1.0, or 0.0 and -0.0."""
    if isinstance(value, (np.ndarray, np.generic)):  # an array of no dimensions is not a number
        return isinstance(value, np.ndarray), value.dtype, value.shape, value.tobytes()
    if isinstance(value, float):
        return type(value), struct.pack("d", value)
    if isinstance(value, complex):
        return type(value), struct.pack("dd", value.real, value.imag)
    if isinstance(value, (tuple, list)):
        return type(value), *map(exact_key, value)
    if isinstance(value, Mapping):
        return type(value), *((exact_key(key), exact_key(each)) for key, each in value.items())
    return type(value), value


class Constant:
    """An attribute's value as a parameter of a primitive, which is compared exactly."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Any):
        if isinstance(value, np.ndarray):
            value = value.copy()  # the caller may change its array later
            value.setflags(write=False)
        self.value = value
        self._key = exact_key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def freeze(where: str, attributes: Mapping[str, Any]) -> Frozen:
    """Makes attributes hashable, for a program. Raises TypeError for a value that cannot be in a program."""
    return tuple((name, _freeze(where, name, attributes[name])) for name in sorted(attributes))


def _freeze(where: str, name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return freeze(f"{where}: attribute '{name}'", value)
    if isinstance(value, jax.Array):
        raise TypeError(f"{where}: attribute '{name}' is a jax.Array; pass it as an argument, or as a numpy.ndarray")
    if not isinstance(value, (np.ndarray, np.generic)):
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"{where}: attribute '{name}' cannot be hashed: {value!r}") from None
    return Constant(value)


def thaw(frozen: Frozen) -> dict[str, Any]:
    """Returns the attributes that `freeze` got."""
    return {name: value.value if isinstance(value, Constant) else thaw(value) for name, value in frozen}
