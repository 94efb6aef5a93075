# SPDX-License-Identifier: Apache-2.0
"""Computes the manual axes of a shard_map over which results vary, which JAX tracks with `check_vma=True`.

A call's results vary over the axes over which an operand varies, and over those in its result types. If an io callback
has no varying operand and no axes in its result types, its results vary over all axes, because each device calls and
may get other results. If such results, for example a batch of data, were declared equal on all devices, JAX would not
sum gradients with respect to values that are equal on all devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .. import _jax_compat


def stated(leaves: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the types of results, with the axes in the leaves of `result_shape_dtypes`."""
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
    """Returns the types of a call's results. `of_host`: devices with equal operands may get different results."""
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
    """Returns the pytree with arrays that all vary over the same axes.

    This is for calls with rules of their own: JAX sums the cotangents of values that were made varying.
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
