# SPDX-License-Identifier: Apache-2.0
"""`callout.HostValue` holds arrays that the host changes while programs read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from .. import _ext, _jax_compat
from .handles import HostObject


class _Form(NamedTuple):
    """The static part of a value in a compiled program: its structure and the types of its arrays."""

    tree: Any
    types: tuple[jax.core.ShapedArray, ...]


class HostValue(HostObject, tag="host_value"):
    """Arrays that the host changes while programs read them, such as a learning rate.

    A `HostValue` is a pytree, so that a jitted function takes it as an argument, and one compiled program serves all
    values of one structure. A program always reads arrays that were set together. All devices of a program read the
    same arrays in the same step. Keep the object for as long as programs use it: when nothing in Python refers to the
    object any more, the next read in a program fails.

    Args:
        value: a pytree of arrays and numbers. Its structure, shapes and dtypes are fixed from now on.

    Raises:
        TypeError: a leaf is no array, or its dtype has less than a byte.
        ValueError: there is no leaf.

    Example:
        >>> rate = callout.HostValue(0.5)
        >>> step = jax.jit(lambda rate, w: w - rate.get())
        >>> float(step(rate, 2.0))
        1.5
        >>> rate.set(0.25)  # from any thread, while programs run
        >>> float(step(rate, 2.0))
        1.75
    """

    def __init__(self, value: Any) -> None:
        leaves, tree = jax.tree.flatten(value)
        if not leaves:
            raise ValueError(f"callout.HostValue: the value must have at least one array, got {value!r}")
        arrays = [_array("HostValue", leaf) for leaf in leaves]
        for array in arrays:
            if array.dtype.name in _ext.SUB_BYTE_BITS:
                raise TypeError(
                    f"callout.HostValue: arrays of dtype {array.dtype} have less than a byte for an element"
                )
        self._form = _Form(tree, tuple(jax.core.ShapedArray(array.shape, array.dtype) for array in arrays))
        self._own(_ext.HostValueOwner(arrays))

    def get(self) -> Any:
        """Returns the current value: NumPy arrays, or JAX arrays inside a program."""
        leaves = _ext.get_host_value(self._words("get()")) if self._happens_now() else self._read(*self._form.types)
        return jax.tree.unflatten(self._form.tree, leaves)

    def set(self, value: Any) -> None:
        """Replaces the value, even while programs run. Thread-safe.

        Args:
            value: a pytree with the structure, shapes and dtypes of the first value. Python's numbers are converted to
                the dtypes.

        Raises:
            ValueError: the structure, a shape or a dtype differs; the message lists the leaves.
        """
        words = self._words("set()")
        paths, tree = jax.tree_util.tree_flatten_with_path(value)
        if tree != self._form.tree:
            raise ValueError(f"callout.HostValue.set: expected the structure {self._form.tree}, got {tree}")
        arrays, wrong = [], []
        for (path, leaf), expected in zip(paths, self._form.types, strict=True):
            array = _array("HostValue.set", leaf, expected.dtype)
            arrays.append(array)
            if (array.shape, array.dtype) != (expected.shape, expected.dtype):
                place = jax.tree_util.keystr(path)
                at = f" at {place}" if place else ""
                wrong.append(f"expected {expected.str_short()}{at}, got {_short(array)}")
        if wrong:
            raise ValueError(f"callout.HostValue.set: {'; '.join(wrong)}")
        _ext.set_host_value(words, arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the current value: the copy is another object."""
        return HostValue, (self.get(),)

    def __repr__(self) -> str:
        """Shows the value, if it can be read here."""
        return f"HostValue({self._leaf!r})" if self._owner is None else f"HostValue({self.get()!r})"


def _short(array: np.ndarray) -> str:
    return str(jax.core.ShapedArray(array.shape, array.dtype).str_short())


def _array(where: str, leaf: Any, dtype: Any = None) -> np.ndarray:
    """Converts a leaf to a NumPy array of JAX's dtype. A number of Python's gets `dtype` if it fits."""
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(f"callout.{where}: the value must be of the host, got {leaf}, which JAX traces")
    if dtype is not None and type(leaf) in _NUMBERS and _fits(leaf, dtype):
        return np.asarray(leaf, dtype)
    try:
        with jax.ensure_compile_time_eval():
            return np.asarray(_jax_compat.unguarded(lambda: jax.numpy.asarray(leaf)))
    except TypeError:
        raise TypeError(f"callout.{where}: the value must be a pytree of arrays and numbers, got {leaf!r}") from None


_NUMBERS = {bool: np.bool_, int: np.integer, float: np.floating, complex: np.complexfloating}


def _fits(number: complex, dtype: Any) -> bool:
    """Returns whether JAX promotes a Python number to the dtype: an integer to a float, but never to a bool."""
    kinds = list(_NUMBERS.values())
    widest = next((i for i, kind in enumerate(kinds) if jax.dtypes.issubdtype(dtype, kind)), -1)
    own = kinds.index(_NUMBERS[type(number)])
    return widest == own or widest > own >= 1


def _flatten(value: HostValue) -> tuple[tuple[Any], _Form]:
    return (value._leaf,), value._form


def _unflatten(form: _Form, leaves: tuple[Any]) -> HostValue:
    value = object.__new__(HostValue)
    value._form = form
    value._take(leaves[0])
    return value


jax.tree_util.register_pytree_node(HostValue, _flatten, _unflatten)
