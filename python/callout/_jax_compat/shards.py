# SPDX-License-Identifier: Apache-2.0
"""What a shard_map says of the values inside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from .versions import MISSING


def manual_devices(ctx: Any) -> int:
    """Returns how many devices of this process run what is lowered, each on its own: inside shard_map or pmap."""
    axis_context = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.SPMDAxisContext):
        mesh: Any = axis_context.mesh
        count = int(np.prod([mesh.shape[name] for name in axis_context.manual_axes]))
        devices = getattr(mesh, "devices", None)
    else:
        count, devices = int(np.prod(getattr(getattr(axis_context, "axis_env", None), "sizes", ()))), None
    of_all = list(jax.devices() if devices is None else np.ravel(devices))
    here = sum(device.process_index == jax.process_index() for device in of_all)
    return max(1, int(count * here // len(of_all)))


def varying_axes(aval: Any) -> frozenset[Any]:
    """Returns the manual axes of a shard_map over which values of this type differ for JAX; none without `check_vma`."""
    axes: frozenset[Any] = getattr(getattr(aval, "manual_axis_type", None), "varying", frozenset())
    return axes


try:
    from jax._src import shard_map as _shard_map

    shard_map_p: Any = _shard_map.shard_map_p
except (ImportError, AttributeError):
    shard_map_p = None
    MISSING.append("jax._src.shard_map.shard_map_p")


def varying(value: Any, like: Any) -> Any:
    """Returns `value`, of which JAX then thinks that it differs over the same axes of a shard_map as one of type `like`."""
    axes = varying_axes(like)
    return jax.lax.pcast(value, tuple(axes), to="varying") if axes else value


def checked_axes() -> frozenset[Any]:
    """Returns the manual axes of the shard_map that is being traced, if it tells over which of them values vary."""
    axes: frozenset[Any] = frozenset(jax.sharding.get_abstract_mesh().manual_axes)
    return axes if axes and (_check_vma is None or _check_vma.value) else frozenset()


try:
    from jax._src import config as _config

    _check_vma: Any = _config._check_vma
except (ImportError, AttributeError):
    _check_vma = None
    MISSING.append("jax._src.config._check_vma")


def array_type(shape: Sequence[Any], dtype: Any, axes: frozenset[Any]) -> jax.core.ShapedArray:
    """Returns the type of an array that varies over these manual axes."""
    if not axes:
        return jax.core.ShapedArray(shape, dtype)
    whole = jax.sharding.PartitionSpec(*(None,) * len(shape))
    sharding = jax.sharding.NamedSharding(jax.sharding.get_abstract_mesh(), whole)
    varies = jax.sharding.ManualAxisType(varying=axes)
    return jax.core.ShapedArray(shape, dtype, sharding=sharding, manual_axis_type=varies)
