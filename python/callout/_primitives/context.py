# SPDX-License-Identifier: Apache-2.0
"""A lowering rule's context tells of devices, axes, platforms, and what the module is for.

JAX tells the devices that a program is compiled for only where it finds a primitive that asks for them, and then refuses
more than one mesh ("mesh should be the same across the entire program"). So the device that a call names (`sharding=`) is a
parameter with a primitive of its own, which no program runs: the primitive is in a jaxpr among the parameters of just these
calls, where JAX looks, too. It stays with the call, whatever program becomes of the call: an eager operation, the body of a
loop, a rule.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core
from jax.interpreters import mlir

from .. import _jax_compat
from .jaxprs import opened


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


known_devices_p = jax.extend.core.Primitive("callout_known_devices")
known_devices_p.multiple_results = True


class NamedDevice(NamedTuple):
    """A sharding over one device, with what asks for the program's devices."""

    sharding: jax.sharding.Sharding
    mark: Any


def named_device(sharding: jax.sharding.Sharding | None) -> NamedDevice | None:
    """Returns the parameter of a call with this sharding."""
    return None if sharding is None else NamedDevice(sharding, _mark())


@functools.cache
def _mark() -> Any:
    return opened(jax.make_jaxpr(known_devices_p.bind)())


known_devices_p.def_abstract_eval(list)
_jax_compat.require_devices(known_devices_p)
