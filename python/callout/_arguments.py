# SPDX-License-Identifier: Apache-2.0
"""What may be passed to a primitive of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


def as_leaves(values: Sequence[Any]) -> list[Any]:
    """Arrays and numbers as they are; PRNG keys as the integers that they are made of."""
    leaves = []
    for value in values:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        elif dtype is None and not isinstance(value, (bool, int, float, complex)):
            value = jax.numpy.asarray(value)
        leaves.append(value)
    return leaves
