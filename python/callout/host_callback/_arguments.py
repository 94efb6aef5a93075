# SPDX-License-Identifier: Apache-2.0
"""What `id_tap`, `id_print` and `call` take, and what they say of anything else: the texts are those that programs know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _jax_compat
from .._base import lifetime
from .._base.arguments import as_leaves, goes_on, is_array_like


def check_callable(function: Any) -> None:
    """Raises TypeError."""
    if not callable(function):
        raise TypeError(f"Expected a callable value, got {function}")


def check_leaves(leaves: Sequence[Any]) -> None:
    """Raises TypeError for what cannot be in a program."""
    for leaf in leaves:
        if not is_array_like(leaf):
            raise TypeError(f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type.")


def operands(leaves: Sequence[Any]) -> list[Any]:
    """Returns what the primitives take: arrays of JAX's dtypes, keys as the integers that they are made of."""
    lifetime.check_usable()
    check_leaves(leaves)
    values = [np.zeros(leaf.shape, bool) if is_float0(leaf) else leaf for leaf in leaves]
    return [
        leaf if isinstance(leaf, jax.Array) else _jax_compat.unguarded(jax.numpy.asarray, leaf)
        for leaf in as_leaves("callout.host_callback", values)
    ]


def is_float0(leaf: Any) -> bool:
    """Returns True for the tangent of an integer. Inside programs it is an array of false."""
    return getattr(leaf, "dtype", None) == jax.dtypes.float0


def as_given(leaf: Any, sent: Any) -> Any:
    """Returns what a tap returns for a leaf of its argument: what was sent, but for what cannot be made of that."""
    return leaf if is_float0(leaf) or goes_on(leaf) else sent


def result_avals(result_shape: Any) -> tuple[tuple[jax.core.ShapedArray, ...], PyTreeDef]:
    """Returns the flat result types of `call`, in JAX's dtypes, and their tree."""
    flat, tree = jax.tree.flatten(result_shape)
    try:
        return tuple(map(_aval, flat)), tree
    except Exception:  # noqa: BLE001 - whatever the attributes of a value raise
        raise ValueError(
            "result_shape should be a pytree of values with structure matching the expected result of the callback "
            "function. The values must be either numeric scalars, or must have 'shape' and 'dtype' attributes. "
            f"Got {result_shape}"
        ) from None


def _aval(value: Any) -> jax.core.ShapedArray:
    dtype = value.dtype if hasattr(value, "dtype") else jax.dtypes.result_type(value)
    return jax.core.ShapedArray(np.shape(value), jax.dtypes.canonicalize_dtype(np.dtype(dtype)))


class ResultCheck:
    """What a result of `function` must be, with `jax_enable_x64` as it was traced: threads do not share it."""

    def __init__(self, function: Callable[..., Any], tree: PyTreeDef, avals: Sequence[jax.core.ShapedArray], x64: bool):
        self._function = function
        self._tree = tree
        self._avals = tuple(avals)
        self._x64 = x64

    def _begin(self) -> str:
        return f"Callback func {self._function} should have returned a result with"

    def leaves(self, result: Any) -> list[Any]:
        """Returns the leaves, Python's numbers in JAX's dtypes. Raises TypeError for another tree."""
        leaves, got = jax.tree.flatten(result)
        if got != self._tree:
            raise TypeError(f"{self._begin()} pytree {self._tree} but returned {got}")
        with jax.enable_x64(self._x64):
            return [
                leaf if hasattr(leaf, "dtype") else np.asarray(leaf, jax.dtypes.result_type(leaf)) for leaf in leaves
            ]

    def refuse(self, result: Any) -> None:
        """Raises TypeError for a result of other shapes or dtypes."""
        leaves, tree = jax.tree.flatten(result)
        with jax.enable_x64(self._x64):
            got = tuple(map(_aval, leaves))
        if got != self._avals:
            expected = jax.tree.unflatten(self._tree, self._avals)
            raise TypeError(f"{self._begin()} abstract values {expected} but returned {jax.tree.unflatten(tree, got)}")
