# SPDX-License-Identifier: Apache-2.0
"""Emits JAX's callbacks in the place of Callout's custom calls, for lowering rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from ... import _ext, _jax_compat
from . import host_functions, jax_operations, policy, transfers
from .jax_operations import Placement

INSPECTED = tuple(kind for kind, fields in _ext.program_kinds().items() if fields)
"""The beginnings of the names of inspectors, which read values independent of their placement."""


def _manual_mesh(ctx: mlir.LoweringRuleContext) -> Any:
    """Returns the mesh whose devices each run the lowered code on their own; None if the compiler partitions any axis."""
    axis_context: Any = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.SPMDAxisContext) and axis_context.manual_axes == {*axis_context.mesh.axis_names}:
        return axis_context.mesh
    return None


def _is_on_shards(ctx: mlir.LoweringRuleContext, where: str, sharding: str, is_ordered: bool, callback: str) -> bool:
    """Returns whether each device calls with its shard of a value that the compiler partitions.

    Inspectors get the whole value, because a shard may have padding. Ordered calls get the whole value, too, because
    XLA crashes the process otherwise.
    """
    if sharding != "local" or _manual_mesh(ctx) is not None:
        return False
    if not isinstance(ctx.module_context.axis_context, mlir.SPMDAxisContext):
        return not is_ordered and not callback.startswith(INSPECTED)
    if is_ordered:
        raise NotImplementedError(
            f'{where}: ordered=True with sharding="local" inside a shard_map that leaves axes to the compiler needs '
            "callout's native path, and this program goes by JAX's callbacks (config.fallback)"
        )
    return True


def _placement(ctx: mlir.LoweringRuleContext, on_shards: bool, device_index: int, has_results: bool) -> Any:
    axis_context: Any = ctx.module_context.axis_context
    if not isinstance(axis_context, (mlir.SPMDAxisContext, mlir.ShardingContext)):
        return None
    # XLA loses results of a callback on another device than the first, even of JAX's own: all elements are zero.
    index = None if _manual_mesh(ctx) is not None else 0 if has_results else device_index
    return Placement(index, on_shards)


def _devices(ctx: mlir.LoweringRuleContext) -> tuple[int, ...] | None:
    """Returns the FFI ordinals of the devices that each run the lowered code on their own; None for one or unknown ones."""
    mesh = _manual_mesh(ctx)
    if not isinstance(mesh, jax.sharding.Mesh) or mesh.size == 1:
        return None
    return tuple(_jax_compat.ordinal_of(device) for device in mesh.devices.flat)


def _is_over_several(ctx: mlir.LoweringRuleContext) -> bool:
    axis_context: Any = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.SPMDAxisContext):
        return bool(axis_context.mesh.size > 1)
    return getattr(axis_context, "num_devices", 1) > 1


def _spec(aval: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return np.dtype(aval.dtype), tuple(aval.shape)


def _refuse_while_partitioning(where: str) -> None:
    """Rejects calls in `custom_partitioning`'s function for shards, whose host callbacks XLA would not find."""
    if _jax_compat.is_partitioning():
        raise NotImplementedError(
            f"{where}: in the function that custom_partitioning has for each shard, a callback needs callout's native path, "
            "and this program goes by JAX's callbacks (config.fallback); call it outside of that function"
        )


def emit(
    ctx: mlir.LoweringRuleContext,
    platform: str,
    target: str,
    args: Sequence[Any],
    attributes: Mapping[str, Any],
    *,
    where: str,
    token: Any,
    threaded: bool,
    avals_out: Sequence[Any],
    has_side_effect: bool,
    sharding: str,
    device_index: int,
) -> list[Any]:
    """Emits the custom call `target`, and returns its results, JAX's token first if there is a `token`.

    `threaded`: the first of `args` and of the results is a token of `callout.threaded`.
    """
    _refuse_while_partitioning(where)
    sent, received = ([_spec(aval) for aval in avals] for avals in (ctx.avals_in, avals_out))
    call = host_functions.FallbackCall(
        *(target, where, platform, dict(attributes), threaded, received),
        ordinals=_devices(ctx),
        is_deferred=_is_over_several(ctx) and len(avals_out) == threaded,
    )
    on_shards = _is_on_shards(ctx, where, sharding, token is not None, attributes["callback"])
    placement = _placement(ctx, on_shards and not avals_out, device_index, bool(avals_out))
    kinds = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in avals_out]
    return write(
        *(ctx.module_context, call, args, sent, kinds),
        token=token,
        has_side_effect=has_side_effect,
        placement=placement,
    )


def write(
    module: Any,
    call: host_functions.FallbackCall,
    args: Sequence[Any],
    specs: host_functions.Specs,
    kinds: Sequence[Any],
    *,
    token: Any,
    has_side_effect: bool,
    placement: Placement | None,
) -> list[Any]:
    """Emits JAX's callback of `call`. `specs`: of `args`; `kinds`: types of the results; both without `token`."""
    host_functions.check(call)
    policy.warn_once(call.platform)
    sends_only = call.platform == "tpu" and token is None and not call.threaded and call.never_fails
    if sends_only:  # the device does not wait, and the program cannot fail
        call = dataclasses.replace(call, is_deferred=True)
    operands, sent = list(args), list(specs)
    if call.ordinals is not None:
        operands.append(stablehlo.partition_id())
        sent.append((np.dtype(np.uint32), ()))
    if token is not None:
        operands, kinds = [token, *operands], [mlir.token_type(), *kinds]
    if call.platform == "tpu":
        waits = (token is not None or has_side_effect) and not sends_only
        return list(transfers.emit(module, call, operands, kinds, sent, placement, waits))
    function = host_functions.function_for(call)
    return list(
        jax_operations.custom_call(module, call.platform, function, operands, kinds, has_side_effect, placement)
    )
