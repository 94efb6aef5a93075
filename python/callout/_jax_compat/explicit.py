# SPDX-License-Identifier: Apache-2.0
"""Shardings that are part of an array's type: those over the explicit axes of a mesh."""

from __future__ import annotations

from typing import Any

import jax


def _axes(value: Any, dim: int) -> tuple[Any, Any]:
    """Returns the mesh and its axes over which a dimension is spread; None and None where the type does not say so."""
    sharding: Any = getattr(jax.typeof(value), "sharding", None)
    axes = None if sharding is None or sharding.mesh.empty else sharding.spec[dim]
    return (None, None) if axes is None else (sharding.mesh, axes)


def summed_over(aval: Any) -> frozenset[Any]:
    """Returns the axes of which each device has a summand of a value of this type."""
    axes: frozenset[Any] = getattr(getattr(getattr(aval, "sharding", None), "spec", None), "unreduced", frozenset())
    return axes


def gathered(value: Any, dim: int) -> Any:
    """Returns the value with all of the dimension on every device, as loops over it need."""
    mesh, axes = _axes(value, dim)
    return value if axes is None else _spread(value, dim, mesh, None)


def spread_like(value: Any, dim: int, like: Any, like_dim: int) -> Any:
    """Returns the value with a dimension spread as one of `like`, as JAX asks of all that a `vmap` maps."""
    mesh, axes = _axes(like, like_dim)
    return value if axes is None else _spread(value, dim, mesh, axes)


def _spread(value: Any, dim: int, mesh: Any, axes: Any) -> Any:
    sharding = jax.typeof(value).sharding
    spec = [None] * len(value.shape) if sharding.mesh.empty else list(sharding.spec)
    spec[dim] = axes
    return jax.sharding.reshard(value, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))
