# SPDX-License-Identifier: Apache-2.0
"""Over which manual axes of a shard_map results vary, which JAX tracks with `check_vma=True`.

What a call returns varies over the axes over which one of its operands does, and those that its result types say. Where
an io callback is told nothing that varies and says nothing, it varies over all: each device asks, and may hear something
else. Were such a batch of data called the same everywhere, gradients with respect to what is would not be summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .. import _jax_compat


def stated(leaves: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the types of results, with the axes that the leaves of `result_shape_dtypes` say."""
    checked = _jax_compat.checked_axes()
    if not checked:
        return tuple(results)
    return tuple(
        _jax_compat.array_type(result.shape, result.dtype, _jax_compat.varying_axes(leaf) & checked)
        if isinstance(leaf, jax.ShapeDtypeStruct)
        else result
        for leaf, result in zip(leaves, results, strict=True)
    )


def result_types(operands: Sequence[Any], results: Sequence[Any], *, of_host: bool = False) -> tuple[Any, ...]:
    """Returns the types of the results of a call. `of_host`: devices that ask alike may get different answers."""
    checked = _jax_compat.checked_axes()
    if not checked:
        return tuple(results)
    of_operands = frozenset[Any]().union(*map(_jax_compat.varying_axes, operands))

    def typed(result: Any) -> Any:
        if not hasattr(result, "shape"):  # a token
            return result
        axes = of_operands | _jax_compat.varying_axes(result)
        if of_host and not axes:
            axes = checked
        return _jax_compat.array_type(result.shape, result.dtype, axes)

    return tuple(map(typed, results))


def alike(args: Any) -> Any:
    """Returns the pytree, whose arrays then vary over the same axes.

    For calls with rules of their own: JAX sums the cotangents of what it was told to vary.
    """
    if not _jax_compat.checked_axes():
        return args
    leaves, tree = jax.tree.flatten(args)
    types = [jax.typeof(leaf) for leaf in leaves]
    axes = frozenset[Any]().union(*map(_jax_compat.varying_axes, types))
    missing = [tuple(axes - _jax_compat.varying_axes(type_)) for type_ in types]
    spread = [
        jax.lax.pcast(leaf, more, to="varying") if more else leaf for leaf, more in zip(leaves, missing, strict=True)
    ]
    return jax.tree.unflatten(tree, spread)
