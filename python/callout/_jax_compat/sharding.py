# SPDX-License-Identifier: Apache-2.0
"""Reads and writes JAX's shardings, and registers partitioning rules with XLA.

`gathered`, `spread_like` and `summed_over` handle shardings in an array's type, over the explicit axes of a mesh.
`varying` and related functions handle values inside a shard_map. `register_partitioner` and related functions tell
XLA's partitioner how to shard custom calls.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from .clients import xla_client
from .versions import MISSING


def _axes(value: Any, dim: int) -> tuple[Any, Any]:
    """Returns the mesh and its axes over which a dimension is sharded; None and None if the type has no sharding."""
    sharding: Any = getattr(jax.typeof(value), "sharding", None)
    axes = None if sharding is None or sharding.mesh.empty else sharding.spec[dim]
    return (None, None) if axes is None else (sharding.mesh, axes)


def summed_over(aval: Any) -> frozenset[Any]:
    """Returns the unreduced axes of a type: along these, each device holds a summand of the value."""
    axes: frozenset[Any] = getattr(getattr(getattr(aval, "sharding", None), "spec", None), "unreduced", frozenset())
    return axes


def gathered(value: Any, dim: int) -> Any:
    """Returns the value with the whole dimension on every device, as a loop over the dimension needs."""
    mesh, axes = _axes(value, dim)
    return value if axes is None else _spread(value, dim, mesh, None)


def spread_like(value: Any, dim: int, like: Any, like_dim: int) -> Any:
    """Returns the value with a dimension sharded like one of `like`, as JAX requires of all operands of a `vmap`."""
    mesh, axes = _axes(like, like_dim)
    return value if axes is None else _spread(value, dim, mesh, axes)


def _spread(value: Any, dim: int, mesh: Any, axes: Any) -> Any:
    sharding = jax.typeof(value).sharding
    spec = [None] * len(value.shape) if sharding.mesh.empty else list(sharding.spec)
    spec[dim] = axes
    return jax.sharding.reshard(value, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))


def manual_devices(ctx: Any) -> int:
    """Returns how many devices of this process each run the lowered code on their own: inside shard_map or pmap."""
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
    """Returns the manual axes of a shard_map over which values of this type vary; none without `check_vma`."""
    axes: frozenset[Any] = getattr(getattr(aval, "manual_axis_type", None), "varying", frozenset())
    return axes


try:
    from jax._src import shard_map as _shard_map

    shard_map_p: Any = _shard_map.shard_map_p
except (ImportError, AttributeError):
    shard_map_p = None
    MISSING.append("jax._src.shard_map.shard_map_p")


def varying(value: Any, like: Any) -> Any:
    """Returns `value`, marked as varying over the axes of a shard_map over which `like` varies."""
    axes = varying_axes(like)
    return jax.lax.pcast(value, tuple(axes), to="varying") if axes else value


def checked_axes() -> frozenset[Any]:
    """Returns the manual axes of the shard_map that is being traced, if it has `check_vma`."""
    if _check_vma is not None and not _check_vma.value:
        return frozenset()
    return frozenset(jax.sharding.get_abstract_mesh().manual_axes)


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


def has_partitioner() -> bool:
    """Returns whether this jaxlib supports partitioning rules for custom calls."""
    return hasattr(xla_client, "register_custom_call_partitioner") and hasattr(xla_client, "HloSharding")


def register_partitioner(target: str, partition: Any, partition_of_plugins: Any = None) -> None:
    """Registers `partition(arg_shapes, arg_shardings, result_shape, result_sharding, config) -> (module, shardings, ...)`.

    `partition_of_plugins`: another function for platforms that are plugins, if they need one. CPUs are not plugins.

    The public `custom_partitioning` puts a pointer into the module, which breaks the compilation cache and exported
    programs, and does not support side effects.
    """
    if not has_partitioner():
        MISSING.append("jaxlib.xla_client.register_custom_call_partitioner")
        return

    def registering(partition: Any) -> Any:
        return functools.partial(
            xla_client.register_custom_call_partitioner,
            target,
            lambda sharding, *_: sharding,
            partition,
            lambda *_: None,
            can_side_effecting_have_replicated_sharding=True,
        )

    registering(partition)()
    _with_each_plugin(registering(partition_of_plugins or partition))


def _with_each_plugin(register: Any) -> None:
    """Calls `register(c_api=)` for each PJRT plugin, now or once JAX finds it. CUDA comes as a plugin."""
    try:
        from jax._src.xla_bridge import register_plugin_callbacks
    except ImportError:
        MISSING.append("jax._src.xla_bridge.register_plugin_callbacks")
        return

    def register_if_it_can(c_api: Any) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # a plugin without partitioners
            register(c_api=c_api)

    register_plugin_callbacks(register_if_it_can)


def replicated_sharding() -> Any:
    """Returns the sharding that gives every device the whole value."""
    return xla_client.HloSharding.replicate()


def tuple_sharding(shape: Any, elements: Sequence[Any]) -> Any:
    """Returns the sharding of a call's results: a tuple sharding, or the only element."""
    return xla_client.HloSharding.tuple_sharding(shape, list(elements)) if shape.is_tuple() else elements[0]


def programs_around() -> Iterator[Any]:
    """Yields the lowering contexts of the programs that XLA is partitioning in this thread.

    XLA's partitioner calls the rules of `custom_partitioning`, and JAX lowers the per-shard function to a module of its
    own. Only the executable of the whole program survives, so objects must be kept alive by the whole program's
    context.
    """
    frame = sys._getframe() if _partition_code is not None else None
    while frame is not None:
        if frame.f_code is _partition_code and "info" in frame.f_locals:
            yield frame.f_locals["info"].module_context
        frame = frame.f_back


def is_partitioning() -> bool:
    """Returns whether XLA is partitioning a program in this thread, and JAX lowers a per-shard function."""
    return any(True for _ in programs_around())


_partition_code: Any = None
try:
    from jax._src import custom_partitioning as _custom_partitioning

    _partition_code = _custom_partitioning._custom_partitioning_partition.__code__
except (ImportError, AttributeError):
    MISSING.append("jax._src.custom_partitioning._custom_partitioning_partition")


def without_mesh() -> contextlib.AbstractContextManager[Any]:
    """Returns a context without this thread's mesh, because a callback may run on the thread that dispatches."""
    stack = contextlib.ExitStack()
    if _mesh is not None:
        stack.enter_context(_use_concrete_mesh(_mesh.empty_concrete_mesh))
        stack.enter_context(_mesh.use_abstract_mesh(_mesh.empty_abstract_mesh))
    return stack


_mesh: Any = None
try:
    from jax._src import mesh as _mesh_module
    from jax._src.sharding_impls import _internal_use_concrete_mesh as _use_concrete_mesh

    if {"empty_concrete_mesh", "empty_abstract_mesh", "use_abstract_mesh"} <= vars(_mesh_module).keys():
        _mesh = _mesh_module
except ImportError:
    pass
if _mesh is None:
    MISSING.append("jax._src.mesh.use_abstract_mesh")
