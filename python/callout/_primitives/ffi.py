# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `callout.ffi.ffi_call`: one for all targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir, xla

from .._base import patches
from .._targets import foreign_attributes as frozen
from .._targets.layouts import MinorToMajor, with_batch
from .._targets.partitioning import foreign_partitioning
from . import context, effects, held_results, jaxprs
from .aliases import Aliases, own_operands
from .batching import INSIDE_RULES, batch_call
from .call import Avals
from .varying import result_types

ffi_p = jex_core.Primitive("callout_ffi_call")
ffi_p.multiple_results = True


@ffi_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, result_avals: Avals, has_side_effect: bool, **_: Any) -> tuple[Avals, set[Any]]:
    patches.ensure("tapped_values")
    return result_types(avals, result_avals), effects.observing(ordered=False) if has_side_effect else set()


@ffi_p.def_impl
def _eager(*args: Any, **params: Any) -> Any:
    return xla.apply_primitive(ffi_p, *args, **params)


def _batch(
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    vmap_method: str | None,
    aliases: Aliases,
    input_layouts: tuple[MinorToMajor, ...],
    output_layouts: tuple[MinorToMajor, ...],
    **params: Any,
) -> tuple[Any, Any]:
    if vmap_method is None:
        raise NotImplementedError(
            f"callout.ffi.ffi_call '{params['target_name']}': vmap needs a vmap_method: 'sequential', "
            f"'sequential_unrolled', 'expand_dims', 'broadcast_all' or 'legacy_vectorized'. {INSIDE_RULES}"
        )
    args, dims = own_operands(aliases, args, dims)
    if vmap_method not in ("sequential", "sequential_unrolled"):
        output_layouts = tuple(map(with_batch, output_layouts))
        everywhere = vmap_method != "legacy_vectorized"
        input_layouts = tuple(
            with_batch(layout) if everywhere or dim is not None else layout
            for layout, dim in zip(input_layouts, dims, strict=True)
        )
    params.update(aliases=aliases, input_layouts=input_layouts, output_layouts=output_layouts)
    return batch_call(ffi_p, args, dims, vmap_method=vmap_method, **params)


batching.primitive_batchers[ffi_p] = _batch


def _refuse(*_: Any, target_name: str, **__: Any) -> Any:
    raise ValueError(
        f"callout.ffi.ffi_call '{target_name}' cannot be differentiated: pass jvp=, vjp= or transpose=, or use "
        "`jax.custom_jvp` or `jax.custom_vjp`"
    )


ad.primitive_jvps[ffi_p] = _refuse
ad.primitive_transposes[ffi_p] = _refuse


def _lower(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target_name: str,
    has_side_effect: bool,
    input_layouts: tuple[MinorToMajor, ...],
    output_layouts: tuple[MinorToMajor, ...],
    aliases: Aliases,
    api_version: int,
    backend_config: str | None,
    attributes: frozen.Frozen,
    sharding: str | None,
    **_: Any,
) -> list[Any]:
    if has_side_effect:
        held_results.note_callback()
    num_devices = context.num_devices(ctx)
    extra = foreign_partitioning.attributes(target_name, num_devices, sharding, has_side_effect)
    lower = jax.ffi.ffi_lowering(
        foreign_partitioning.name_for(target_name) if extra else target_name,
        has_side_effect=has_side_effect,
        operand_layouts=[tuple(layout) for layout in input_layouts],
        result_layouts=[tuple(layout) for layout in output_layouts],
        operand_output_aliases=dict(aliases),
        api_version=api_version,
        backend_config=backend_config,
    )
    results: list[Any] = list(lower(ctx, *args, **frozen.thaw(attributes), **extra))
    if extra:
        foreign_partitioning.set_rule(results, ctx.avals_in, ctx.avals_out, sharding)
    return results


mlir.register_lowering(ffi_p, _lower)  # for every platform: XLA reports a missing target


def foreign_targets(jaxpr: Any) -> set[str]:
    """Returns the targets that a traced program may call by `callout.ffi`, in its branches and loops, too."""
    found: set[str] = set()
    for equation in jaxprs.opened(jaxpr).eqns:
        if equation.primitive is ffi_p:
            name = equation.params["target_name"]
            found |= {name, foreign_partitioning.name_for(name)}
        found.update(*map(foreign_targets, jaxprs.inner_jaxprs(equation)))
    return found
