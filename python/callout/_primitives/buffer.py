# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `callout.buffer_callback`: a call on XLA's own memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.extend.core
from jax.interpreters import ad, batching, mlir, xla

from .._base import patches
from .._targets.target import Target
from . import context, effects, lowering
from .aliases import Aliases, own_operands
from .batching import batch_call
from .call import Avals, lower_call, refuse
from .varying import result_types

WHERE = "callout.buffer_callback"
PLATFORMS = ("cpu", "cuda")

buffer_p = jax.extend.core.Primitive("callout_buffer_callback")
buffer_p.multiple_results = True
buffer_p.def_impl(functools.partial(xla.apply_primitive, buffer_p))


@buffer_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, result_avals: Avals, has_side_effect: bool, **_: Any) -> tuple[Avals, set[Any]]:
    patches.ensure("tapped_values")
    return result_types(avals, result_avals), effects.acting(ordered=False) if has_side_effect else set()


def _lower(
    platform: str,
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: Target,
    has_side_effect: bool,
    aliases: Aliases,
    sharding: str,
    capturable: bool,
    graph: bool,
    **_: Any,
) -> Sequence[Any]:
    supported = getattr(target, "platforms", PLATFORMS)
    if platform not in supported:
        refused: Sequence[Any] = lowering.refuse_platform(ctx, *args, target=target, supported=supported)
        return refused
    lowering.refuse_automatic_axes(ctx, WHERE)
    num_devices = context.num_devices(ctx)
    if sharding == "error" and num_devices > 1:
        raise NotImplementedError(
            f"{WHERE}: '{target.label}' is in a jit over {num_devices} devices, and sharding='error'. Call it in "
            "jax.shard_map, or say sharding='gather' (once, with whole arrays) or 'local' (on each device's shards)"
        )
    return lower_call(
        ctx,
        args,
        WHERE,
        target,
        name="callout.v1.buffer_capturable" if capturable and platform == "cuda" else "callout.v1.buffer",
        ordered=False,
        has_side_effect=has_side_effect,
        sharding="gather" if sharding == "error" else sharding,
        in_place=dict(aliases),
        attributes={"graph": graph, "aliases": aliases},
    )


def _batch(args: Sequence[Any], dims: Sequence[Any], *, aliases: Aliases, **params: Any) -> tuple[Any, Any]:
    return batch_call(buffer_p, *own_operands(aliases, args, dims), aliases=aliases, **params)


mlir.register_lowering(buffer_p, functools.partial(lowering.refuse_platform, supported=PLATFORMS))
for _platform in PLATFORMS:
    mlir.register_lowering(buffer_p, functools.partial(_lower, _platform), platform=_platform)
batching.primitive_batchers[buffer_p] = _batch
ad.primitive_jvps[buffer_p] = functools.partial(refuse, "Buffer", "JVP", "jax.custom_jvp")
ad.primitive_transposes[buffer_p] = functools.partial(refuse, "Buffer", "transpose", "jax.custom_vjp")
