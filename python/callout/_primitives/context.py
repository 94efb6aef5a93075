# SPDX-License-Identifier: Apache-2.0
"""Reads devices, axes, platforms and the purpose of the module from a lowering rule's context.

JAX gives a lowering rule the program's devices only if the program has a primitive that asks for them, and then rejects
more than one mesh ("mesh should be the same across the entire program"). So a call that names a device (`sharding=`)
has a jaxpr with such a primitive among its parameters, where JAX finds the primitive, but no program runs it. The
parameter stays with the call in an eager operation, the body of a loop, or a rule.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex_core
from jax.interpreters import mlir

from .. import _jax_compat
from .jaxprs import opened


def num_devices(ctx: mlir.LoweringRuleContext) -> int:
    """Returns the number of devices for which the compiler partitions the module; 0 inside of a user's shard_map."""
    axis_context = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.ShardingContext):
        return int(axis_context.num_devices)
    return 0


def device_assignment(ctx: mlir.LoweringRuleContext) -> Sequence[jax.Device] | None:
    """Returns the program's devices in order if the compiler partitions it; None otherwise."""
    return getattr(ctx.module_context.axis_context, "device_assignment", None)


def automatic_axes(ctx: mlir.LoweringRuleContext) -> tuple[str, ...]:
    """Returns the mesh axes that an enclosing shard_map leaves to the compiler."""
    axis_context = ctx.module_context.axis_context
    if not isinstance(axis_context, mlir.SPMDAxisContext):
        return ()
    return tuple(name for name in axis_context.mesh.axis_names if name not in axis_context.manual_axes)


def platforms(ctx: mlir.LoweringRuleContext) -> Sequence[str]:
    """Returns the platforms that the rule lowers for."""
    return ctx.platforms or ctx.module_context.platforms


def is_exporting(ctx: mlir.LoweringRuleContext) -> bool:
    """Returns True if the module will be serialised by `jax.export`."""
    return bool(getattr(ctx.module_context.lowering_parameters, "for_export", False))


def explicit_shardings(ctx: mlir.LoweringRuleContext) -> tuple[Any, list[jax.sharding.PartitionSpec]] | None:
    """Returns the mesh of several devices and the spec of each operand, if all axes of the mesh are explicit; else None."""
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


known_devices_p = jex_core.Primitive("callout_known_devices")
known_devices_p.multiple_results = True


class NamedDevice(NamedTuple):
    """A sharding over one device, with the jaxpr that asks JAX for the program's devices."""

    sharding: jax.sharding.Sharding
    mark: Any


def check_sharding(where: str, sharding: Any) -> None:
    """Raises NotImplementedError for a sharding that names more than one device."""
    if sharding is not None and not isinstance(sharding, jax.sharding.SingleDeviceSharding):
        raise NotImplementedError(f"{where} supports only SingleDeviceSharding, got {type(sharding).__name__}")


def named_device(where: str, sharding: Any) -> NamedDevice | None:
    """Returns the parameter for a call with this sharding."""
    if sharding is None:
        return None
    check_sharding(where, sharding)
    return NamedDevice(sharding, _mark())


@functools.cache
def _mark() -> Any:
    return opened(jax.make_jaxpr(known_devices_p.bind)())


known_devices_p.def_abstract_eval(list)
_jax_compat.require_devices(known_devices_p)
