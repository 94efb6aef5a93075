# SPDX-License-Identifier: Apache-2.0
"""Converts PRNG keys among the operands and results of foreign functions to and from their integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._base.arguments import is_key


@dataclasses.dataclass(frozen=True)
class Result:
    """A result of the foreign function, and its conversion to keys."""

    aval: Any
    impl: Any = None  # the implementation of keys; None for arrays


def result(wanted: Any) -> Result:
    """Returns the result for an object with `shape` and `dtype`."""
    if not is_key(wanted):
        return Result(jax.core.ShapedArray(wanted.shape, np.dtype(wanted.dtype)))
    impl = []

    def read(keys: jax.Array) -> jax.Array:
        impl.append(jax.random.key_impl(keys))
        return jax.random.key_data(keys)

    data = jax.eval_shape(read, jax.ShapeDtypeStruct(wanted.shape, wanted.dtype))
    return Result(jax.core.ShapedArray(data.shape, data.dtype), impl[0])


def data(value: Any) -> Any:
    """Converts an operand for the function: keys to their integers."""
    return jax.random.key_data(value) if is_key(value) else value


def wrapped(outs: Sequence[Any], results: Sequence[Result]) -> list[Any]:
    """Converts the function's results: integers to keys where keys were declared."""
    return [
        out if one.impl is None else jax.random.wrap_key_data(out, impl=one.impl)
        for out, one in zip(outs, results, strict=True)
    ]
