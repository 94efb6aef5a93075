# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `callout.buffer_callback`: a call on XLA's own memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir, xla

from .._base import errors, patches
from .._targets.target import Target
from . import context, effects, lowering
from .aliases import Aliases, own_operands
from .batching import batch_call
from .call import Avals, lower_call, refuse
from .fallback import policy
from .varying import result_types

WHERE = "callout.buffer_callback"
PLATFORMS = ("cpu", "cuda")
BY_JAX = ("rocm",)
"""Platforms that only have JAX's own buffer callback."""


class BufferTarget(Target):
    """The target for a Python function of buffers. `run(context, results, *arguments)` takes flat buffers, JAX's, too."""

    __slots__ = ("run",)

    def __init__(self, *args: Any, run: Callable[..., None]):
        super().__init__(*args)
        self.run = run


buffer_p = jex_core.Primitive("callout_buffer_callback")
buffer_p.multiple_results = True


@buffer_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, result_avals: Avals, has_side_effect: bool, **_: Any) -> tuple[Avals, set[Any]]:
    patches.ensure("tapped_values")
    return result_types(avals, result_avals), effects.acting(ordered=False) if has_side_effect else set()


buffer_p.def_impl(functools.partial(xla.apply_primitive, buffer_p))


def _batch(args: Sequence[Any], dims: Sequence[Any], *, aliases: Aliases, **params: Any) -> tuple[Any, Any]:
    return batch_call(buffer_p, *own_operands(aliases, args, dims), aliases=aliases, **params)


batching.primitive_batchers[buffer_p] = _batch

ad.primitive_jvps[buffer_p] = functools.partial(refuse, "Buffer", "JVP", "jax.custom_jvp")
ad.primitive_transposes[buffer_p] = functools.partial(refuse, "Buffer", "transpose", "jax.custom_vjp")


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


mlir.register_lowering(buffer_p, functools.partial(lowering.refuse_platform, supported=PLATFORMS))
for _platform in PLATFORMS:
    mlir.register_lowering(buffer_p, functools.partial(_lower, _platform), platform=_platform)


def by_jax(
    target: BufferTarget, result_avals: Avals, *, has_side_effect: bool, aliases: Aliases, capturable: bool
) -> Callable[..., Sequence[Any]]:
    """Returns a function of flat arrays that calls the target by JAX's own buffer callback."""
    from jax.experimental.buffer_callback import buffer_callback

    def run(ctx: Any, outs: Sequence[Any], *operands: Any) -> None:
        try:
            target.run(ctx, outs, *operands)
        except Exception as error:  # noqa: BLE001 - the user's function may raise anything
            text = errors.keep_without_variables(error)
        else:
            return
        raise errors.CallbackError(f"callout: callback '{target.label}' failed: {text}")

    call: Callable[..., Sequence[Any]] = buffer_callback(
        run,
        tuple(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in result_avals),
        has_side_effect=has_side_effect,
        input_output_aliases=dict(aliases),
        command_buffer_compatible=capturable,
    )
    return call


def _lower_by_jax(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: Target,
    result_avals: Avals,
    has_side_effect: bool,
    aliases: Aliases,
    capturable: bool,
    **params: Any,
) -> Sequence[Any]:
    """Lowers to JAX's buffer callback on a platform without a native path, if `config.fallback` allows it."""
    is_alone = lowering.platform_of_fallback(ctx) is not None and len(ctx.module_context.platforms) == 1
    if not is_alone or not isinstance(target, BufferTarget):
        refused: Sequence[Any] = lowering.refuse_platform(ctx, *args, target=target, supported=PLATFORMS, **params)
        return refused
    if context.num_devices(ctx) > 1:
        raise NotImplementedError(
            f"{WHERE}: '{target.label}' goes by JAX's own buffer callback, which calls on each device of a jit over "
            "several: call it in jax.shard_map"
        )
    policy.warn_once(context.platforms(ctx)[0])
    call = by_jax(target, result_avals, has_side_effect=has_side_effect, aliases=aliases, capturable=capturable)
    lowered: Sequence[Any] = mlir.lower_fun(call, multiple_results=True)(ctx, *args)
    return lowered


for _platform in BY_JAX:
    mlir.register_lowering(buffer_p, _lower_by_jax, platform=_platform)
