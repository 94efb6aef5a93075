# SPDX-License-Identifier: Apache-2.0
"""What may be passed to a primitive of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


def _as_array(where: str, value: Any) -> jax.Array:
    try:
        return jax.numpy.asarray(value)
    except TypeError as error:
        raise TypeError(
            f"{where}: a value must be a pytree of arrays and numbers, got {value!r} of type {type(value).__name__}"
        ) from error


def is_array_like(value: Any) -> bool:
    """True for what can enter a program: arrays, tracers and numbers."""
    if isinstance(value, (bool, int, float, complex)):
        return True
    dtype = getattr(value, "dtype", None)
    if dtype is None or not hasattr(value, "shape"):
        return False
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) or getattr(dtype, "kind", "V") not in "OSUMm"


def is_ref(value: Any) -> bool:
    """True for a mutable array (`jax.new_ref`), in a program or outside."""
    kind = type(value)
    return kind is jax.Ref or (issubclass(kind, jax.core.Tracer) and isinstance(value, jax.Ref))


def read(value: Any) -> Any:
    """What a mutable array holds where the program is now; anything else as it is."""
    return value[...] if is_ref(value) else value


def as_leaves(where: str, values: Sequence[Any]) -> list[Any]:
    """Arrays and numbers as they are; PRNG keys as the integers that they are made of; what mutable arrays hold."""
    leaves = []
    for value in map(read, values):
        dtype = getattr(value, "dtype", None)
        if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        elif dtype is None and not isinstance(value, (bool, int, float, complex)):
            value = _as_array(where, value)
        leaves.append(value)
    return leaves
