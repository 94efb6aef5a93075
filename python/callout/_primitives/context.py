# SPDX-License-Identifier: Apache-2.0
"""What a lowering rule's context tells: devices, axes, platforms, and what the module is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.interpreters import mlir


def num_devices(ctx: mlir.LoweringRuleContext) -> int:
    """Returns over how many devices the compiler spreads the module that is lowered; 0 where the user does, by shard_map."""
    axis_context = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.ShardingContext):
        return int(axis_context.num_devices)
    return 0


def device_assignment(ctx: mlir.LoweringRuleContext) -> Sequence[jax.Device] | None:
    """Returns the program's devices in order, where the compiler spreads it; None elsewhere."""
    return getattr(ctx.module_context.axis_context, "device_assignment", None)


def automatic_axes(ctx: mlir.LoweringRuleContext) -> tuple[str, ...]:
    """Returns the mesh axes that a shard_map around this left to the compiler."""
    axis_context = ctx.module_context.axis_context
    if not isinstance(axis_context, mlir.SPMDAxisContext):
        return ()
    return tuple(name for name in axis_context.mesh.axis_names if name not in axis_context.manual_axes)


def platforms(ctx: mlir.LoweringRuleContext) -> Sequence[str]:
    """Returns the platforms that this rule is asked for."""
    return ctx.platforms or ctx.module_context.platforms


def is_exporting(ctx: mlir.LoweringRuleContext) -> bool:
    """Returns True if the module will be serialised by `jax.export`."""
    return bool(getattr(ctx.module_context.lowering_parameters, "for_export", False))


def explicit_shardings(ctx: mlir.LoweringRuleContext) -> tuple[Any, list[jax.sharding.PartitionSpec]] | None:
    """Returns the mesh of several devices and how each operand lies on it, if the program says so: all axes are explicit."""
    shardings: list[Any] = [getattr(aval, "sharding", None) for aval in ctx.avals_in]
    if num_devices(ctx) < 2 or None in shardings:
        return None
    meshes = {sharding.mesh for sharding in shardings if not sharding.mesh.empty}
    if len(meshes) != 1:
        return None
    (mesh,) = meshes
    if any(kind != jax.sharding.AxisType.Explicit for kind in mesh.axis_types):
        return None
    return mesh, [sharding.spec for sharding in shardings]
