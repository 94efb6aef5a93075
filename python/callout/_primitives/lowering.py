# SPDX-License-Identifier: Apache-2.0
"""Emits custom calls for lowering rules, with a token if ordered, and with a placement among several devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.extend.mlir import ir
from jax.interpreters import mlir

from .. import _ext, _jax_compat
from .._base import patches
from .._base.native_platforms import PLATFORMS, REFUSED, reason
from .._targets import target_attributes
from .._targets.partitioning import partitioner
from .._targets.partitioning.sharding_rule import results_like_operands
from .._targets.target import Target, Transforms
from . import context, held_results
from .context import NamedDevice
from .eager import check_usable
from .effects import ordered_effect
from .fallback import emit as by_jax
from .fallback import policy

# The name of the mark in programs that are exported for several platforms (see _export/reachability.py).
# `callout.export` removes all marks.
REFUSAL = "callout.not_supported"

# Marks programs with calls for PJRT. A serialised program refers to it by its module and name.
host_callback: Any = _ext.host_callback()
host_callback.__module__ = __name__


def not_supported(
    platforms: Iterable[str], supported: Sequence[str] = PLATFORMS, *, label: str = "", exporting: bool = False
) -> str:
    """Returns the error text for a callback that `platforms` do not support. `label`: the callback's name."""
    what = "kernels for cuda" if tuple(supported) == ("cuda",) != PLATFORMS else "callbacks"
    branches = ", ".join(f"{platform}=..." for platform in supported)
    platforms = list(platforms)
    # The label of a check, for example, is a kind, a colon and settings. The error shows only the kind.
    name = f"'{label.partition(':')[0] if label.startswith(by_jax.INSPECTED) else label}': " if label else ""
    clauses = [f"callout: {name}{what} are not supported on platform {', '.join(platforms)}"]
    if supported:
        clauses.append(
            f"supported: {', '.join(supported)}. jax.lax.platform_dependent({branches}, default=...) keeps one out of the "
            "other platforms' programs"
        )
    elif not REFUSED:
        clauses.append("the pure-Python wheel has a native path on no platform")
    clauses += [reason(platform) for platform in platforms if platform in REFUSED]
    return "; ".join(clauses) + (policy.remedy(platforms, exporting) if tuple(supported) == PLATFORMS else "")


def _refuse_or_mark(ctx: mlir.LoweringRuleContext, supported: Sequence[str], label: str) -> dict[str, str] | None:
    """Raises an error if no platform is supported. Returns None if all are, otherwise the attributes of a mark."""
    refused = [platform for platform in context.platforms(ctx) if platform not in supported]
    if not refused:
        return None
    exporting = context.is_exporting(ctx)
    if not exporting or set(supported).isdisjoint(ctx.module_context.platforms):
        raise NotImplementedError(not_supported(refused, supported, label=label, exporting=exporting))
    return {"supported": ",".join(supported), "label": label}


def refuse_others(ctx: mlir.LoweringRuleContext, label: str, supported: Sequence[str] = PLATFORMS) -> None:
    """Rejects or marks platforms without a native path, in a rule for several platforms. `label`: the user's callback."""
    mark = _refuse_or_mark(ctx, supported, label)
    if mark is not None:
        jax.ffi.ffi_lowering(REFUSAL, has_side_effect=True)(ctx.replace(avals_in=[], avals_out=[]), **mark)


def refuse_platform(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: Target | None = None,
    supported: Sequence[str] = PLATFORMS,
    **_: Any,
) -> Sequence[Any]:
    """The lowering rule for platforms without a native path: raises an error, or writes a mark if others have one."""
    mark = _refuse_or_mark(ctx, supported, "" if target is None else target.label)
    if len(ctx.tokens_in) > 0:
        ctx.set_tokens_out(ctx.tokens_in)
    results: Sequence[Any] = jax.ffi.ffi_lowering(REFUSAL, has_side_effect=True)(ctx, *args, **mark or {})
    return results


def platform_of_fallback(ctx: mlir.LoweringRuleContext) -> str | None:
    """Returns the platform if its programs use JAX's own callbacks; None if they use Callout's custom calls.

    An exported program only has Callout's custom calls, because JAX's callbacks belong to this process.
    """
    (platform, *_) = context.platforms(ctx)
    return platform if not context.is_exporting(ctx) and policy.is_used(platform) else None


def bound_name(ctx: mlir.LoweringRuleContext, target: Target, where: str, transforms: Transforms = ()) -> str:
    """Returns the name by which the program calls the target. The lowered program keeps the target alive if necessary."""
    if context.is_exporting(ctx):
        return target.exported_name(where, transforms)
    name = target.bind(transforms)
    if target.is_held_by_programs(name):
        ctx.module_context.add_keepalive(target)
        for program in _jax_compat.programs_around():
            program.add_keepalive(target)
    return name


def dispatch_synchronously(ctx: mlir.LoweringRuleContext, target: Target) -> dict[str, Any]:
    """Makes JAX dispatch a program that waits for a Python function synchronously. Returns attributes for the call.

    PJRT then dispatches the program synchronously, as for JAX's own callbacks, so that programs which the callback
    dispatches do not wait for programs that are queued behind its own. If inputs are not ready, XLA's threads still run
    the program; since JAX 0.12 they then make the call by the function that is added here: docs/hangs.md. Only CPU
    clients use the function. The per-shard function of `custom_partitioning` is lowered while the program is being
    compiled, which is too late.
    """
    if _jax_compat.is_partitioning():
        return {}
    if not target.is_python() or target.numpy_only or context.is_exporting(ctx) or "cpu" not in context.platforms(ctx):
        return {}
    ctx.module_context.add_host_callback(host_callback)
    return {"host_callback": True}


def device_index_of(ctx: mlir.LoweringRuleContext, where: str, named: NamedDevice | None) -> int | None:
    """Returns the index of a call's device among the program's devices; None if the call names none."""
    if named is None:
        return None
    if isinstance(ctx.module_context.axis_context, mlir.SPMDAxisContext):
        raise NotImplementedError(f"{where}: `sharding` has no meaning inside shard_map, where every device calls")
    (device,) = named.sharding.device_set
    devices = context.device_assignment(ctx)
    if devices is None:
        raise NotImplementedError(f"{where}: this JAX does not tell which devices the program is compiled for")
    if device not in devices:
        raise ValueError(
            f"{where}: `sharding` names {device}, which is not one of the program's devices {list(devices)}"
        )
    return list(devices).index(device)


def refuse_automatic_axes(ctx: mlir.LoweringRuleContext, where: str) -> None:
    """Raises an error for calls with results inside a shard_map that leaves axes to the compiler."""
    axes = context.automatic_axes(ctx)
    if axes:
        raise NotImplementedError(
            f"{where}: inside a shard_map, a callback with results needs all mesh axes to be manual; automatic: {axes}"
        )


def refuse_ordered_automatic_axes(ctx: mlir.LoweringRuleContext, where: str, ordered: bool) -> None:
    """Raises an error for ordered callbacks inside a shard_map that leaves axes to the compiler.

    Up to JAX 0.11, a token there makes XLA crash the process ("Check failed: buffer != nullptr").
    """
    axes = context.automatic_axes(ctx)
    if axes and ordered and _jax_compat.JAX_VERSION < (0, 12):
        raise NotImplementedError(
            f"{where}: ordered=True inside a shard_map that leaves axes {axes} to the compiler needs JAX 0.12 or newer"
        )


def bind_on_one_device(
    ctx: mlir.LoweringRuleContext,
    where: str,
    bind: Callable[..., Any],
    args: Sequence[Any],
    device_index: int,
    ordered: bool,
) -> None:
    """Gathers `args` over the axes that a shard_map leaves to the compiler, and binds on one of their devices."""
    axes = context.automatic_axes(ctx)
    refuse_ordered_automatic_axes(ctx, where, ordered)

    def on_one(*values: Any) -> tuple[()]:
        def call() -> tuple[()]:
            bind(*values)
            return ()

        jax.lax.cond(jax.lax.axis_index(axes) == device_index, call, lambda: ())
        return ()

    replicated = jax.sharding.PartitionSpec()
    spread = jax.shard_map(on_one, in_specs=(replicated,) * len(args), out_specs=(), check_vma=False)

    def collected(*values: Any) -> Any:
        return spread(*[jax.sharding.reshard(value, replicated) for value in values])

    inner = ctx.replace(avals_out=[])
    mlir.lower_fun(collected, multiple_results=True)(inner, *args)
    if inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)


def bind_on_shards(ctx: mlir.LoweringRuleContext, bind: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Binds on each device with its shards, in a jit over several devices. Returns False if the shardings are unknown.

    This is for platforms whose compiler has no partitioner for custom calls.
    """
    explicit = context.explicit_shardings(ctx)
    if platform_of_fallback(ctx) != "tpu" or explicit is None:
        return False
    mesh, specs = explicit

    def on_each(*values: Any) -> tuple[()]:
        bind(*values)
        return ()

    spread = jax.shard_map(on_each, mesh=mesh, in_specs=tuple(specs), out_specs=(), check_vma=False)
    inner = ctx.replace(avals_out=[])
    with jax.sharding.use_abstract_mesh(mesh):
        mlir.lower_fun(spread, multiple_results=True)(inner, *args)
    if inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)
    return True


def emit(
    ctx: mlir.LoweringRuleContext,
    name: str,
    args: Sequence[Any],
    attributes: Mapping[str, Any],
    *,
    where: str,
    ordered: bool,
    threaded: bool = False,
    avals_out: Sequence[Any] | None = None,
    has_side_effect: bool = True,
    sharding: str = "gather",
    device_index: int | None = 0,
    in_place: Mapping[int, int] | None = None,
) -> list[Any]:
    """Emits the custom call `name` and returns its results, by default with types `ctx.avals_out`. `where`: for errors.

    `attributes`: see `target_attributes.encode`; attributes for the placement and `threaded` are added. `in_place`:
    aliases of operands and results, for unordered calls. `threaded`: the first of `args` and of the results is a token
    of `callout.threaded` instead of JAX's.
    """
    check_usable()
    patches.ensure("errors")
    if has_side_effect:
        held_results.note_callback()
    refuse_ordered_automatic_axes(ctx, where, ordered)
    avals_out = ctx.avals_out if avals_out is None else avals_out
    if not avals_out:
        _refuse_summands(where, ctx.avals_in)
    if (platform := platform_of_fallback(ctx)) is not None:
        partitioner.check_device_index(where, context.num_devices(ctx), device_index or 0)
        token = ctx.tokens_in.get(ordered_effect) if ordered and not threaded else None
        results = by_jax.emit(
            *(ctx, platform, name, args, attributes),
            where=where,
            token=token,
            threaded=threaded,
            avals_out=avals_out,
            has_side_effect=has_side_effect,
            sharding=sharding,
            device_index=device_index or 0,
        )
        return results if token is None else _without_token(ctx, results)
    num_devices, exporting = context.num_devices(ctx), context.is_exporting(ctx)
    placement = partitioner.attributes(where, num_devices, sharding, device_index or 0, exporting)
    carried = target_attributes.encode(where, name, {**attributes, **placement, "threaded": threaded})
    lower = jax.ffi.ffi_lowering(name, has_side_effect=has_side_effect, operand_output_aliases=in_place)
    if threaded or not ordered:
        results = list(lower(ctx.replace(avals_out=avals_out), *args, **carried))
        if results and sharding == "local" and num_devices > 1 and not threaded:
            rule = results_like_operands(ctx.avals_in, avals_out)
            results[0].owner.attributes["sdy.sharding_rule"] = ir.Attribute.parse(rule)
        return results
    if exporting:
        _refuse_symbolic_results(where, avals_out)
    token = _jax_compat.abstract_token()
    inner = ctx.replace(avals_in=[token, *ctx.avals_in], avals_out=[token, *avals_out])
    return _without_token(ctx, lower(inner, ctx.tokens_in.get(ordered_effect), *args, **carried))


def _refuse_summands(where: str, avals: Sequence[Any]) -> None:
    """Rejects operands that XLA would crash on: "Some operands have unreduced axes but the operation has no results"."""
    for aval in avals:
        if axes := _jax_compat.summed_over(aval):
            raise NotImplementedError(
                f"{where}: a value of type {aval.str_short()} is unreduced over the axes {sorted(axes)} of its mesh: each "
                "device has a summand of it. jax.sharding.reshard makes the sum"
            )


def _refuse_symbolic_results(where: str, avals_out: Sequence[Any]) -> None:
    """Rejects ordered calls with results of symbolic shapes in an export, which JAX cannot load."""
    for aval in avals_out:
        if not all(isinstance(extent, int) for extent in aval.shape):
            raise NotImplementedError(
                f"{where}: ordered=True with a result of the symbolic shape {aval.shape} cannot be exported, because JAX "
                "cannot load it; callout.threaded keeps the order, too, and callout.export(shapes=[...]) exports for known "
                "shapes"
            )


def _without_token(ctx: mlir.LoweringRuleContext, results: Iterable[Any]) -> list[Any]:
    token, *others = results
    ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({ordered_effect: token})))
    return others


def register(primitive: jex_core.Primitive, rule: Callable[..., Any]) -> None:
    """Registers `rule` for the platforms that callbacks run on, and an error for all others."""

    def lower(ctx: mlir.LoweringRuleContext, *args: Any, **params: Any) -> Any:
        platforms = context.platforms(ctx)
        carried = [name for name in platforms if policy.is_used(name)]
        is_exported = context.is_exporting(ctx)
        if is_exported or not carried or not {*PLATFORMS, *carried}.issuperset(platforms):
            if (target := params.get("target")) is not None:  # else it is lowered to primitives that have one
                refuse_others(ctx, target.label, (*PLATFORMS, *carried) if is_exported else PLATFORMS)
            return rule(ctx, *args, **params)
        if "tpu" in carried:
            _jax_compat.lower_each_by_itself(primitive)
        if len(platforms) == 1:
            return rule(ctx, *args, **params)
        return _jax_compat.lower_for_each(ctx, primitive, dict.fromkeys(platforms, rule), args, params)

    mlir.register_lowering(primitive, lower)
