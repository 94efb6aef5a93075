# SPDX-License-Identifier: Apache-2.0
"""Lowers programs to MLIR modules like JAX, and replaces parts of the lowering.

The gradient of a scan moves loop-invariant equations out of the loop; `stage` and related functions keep an equation in
the loop.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.interpreters import mlir, partial_eval

from .versions import MISSING

if TYPE_CHECKING:
    from jax.extend import core as jex_core


class _LoweringRules:
    """Presents JAX's lowering rules for all platforms as a mapping by primitive."""

    def __init__(self, entries: dict[Any, Any]):
        self._entries = entries

    def __getitem__(self, primitive: jex_core.Primitive) -> Any:
        return self._entries[primitive].rule

    def __setitem__(self, primitive: jex_core.Primitive, rule: Any) -> None:
        self._entries[primitive] = dataclasses.replace(self._entries[primitive], rule=rule)


@functools.cache
def lowering_rules() -> _LoweringRules | None:
    """Returns JAX's lowering rules, which have a public setter and no getter; None if they are not as expected."""
    from jax.extend import core as jex_core

    try:
        from jax._src.interpreters.mlir import _lowerings

        rules = _LoweringRules(_lowerings)
        for primitive in (jex_core.primitives.scan_p, jex_core.primitives.while_p):
            rules[primitive] = rules[primitive]
    except (ImportError, KeyError, AttributeError, TypeError):
        MISSING.append("mlir._lowerings")
        return None
    return rules


def require_devices(primitive: jex_core.Primitive) -> None:
    """Makes JAX lower programs with this primitive for given devices, so that `device_assignment` knows them."""
    try:
        from jax._src.dispatch import prim_requires_devices_during_lowering

        prim_requires_devices_during_lowering.add(primitive)
    except ImportError:
        MISSING.append("jax._src.dispatch.prim_requires_devices_during_lowering")


def module_maker() -> tuple[Any, str] | None:
    """Returns the module and the name of JAX's function that lowers a program; None if it is not as expected."""
    try:
        from jax._src.interpreters import mlir as lowering
    except ImportError:
        lowering = None  # type: ignore[assignment]
    if not hasattr(lowering, "lower_jaxpr_to_module"):
        MISSING.append("jax._src.interpreters.mlir.lower_jaxpr_to_module")
        return None
    return lowering, "lower_jaxpr_to_module"


def lower_each_by_itself(primitive: jex_core.Primitive) -> None:
    """Makes JAX lower each equation of a primitive separately, because each needs its own channels."""
    try:
        from jax._src.interpreters.mlir import _uncacheable_primitives
    except ImportError:
        MISSING.append("mlir._uncacheable_primitives")
        return
    _uncacheable_primitives.add(primitive)


def lower_for_each(
    ctx: Any, primitive: jex_core.Primitive, rules: dict[str, Any], args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Emits the rule of each platform as a branch, like JAX does for rules that are registered by platform."""
    from jax._src.interpreters.mlir import lower_per_platform

    _, effects = primitive.abstract_eval(*ctx.avals_in, **params)
    tokens = mlir.TokenSet({effect: token for effect, token in ctx.tokens_in.items() if effect in effects})
    inner = ctx.replace(avals_out=list(ctx.avals_out), tokens_in=tokens)  # a copy, because rules add to the list
    results = lower_per_platform(inner, str(primitive), rules, None, effects, *args, **params)
    if inner.tokens_out is not None:
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(inner.tokens_out))
    return results


def with_vjps(
    exported: jax.export.Exported, finish: Callable[[jax.export.Exported], jax.export.Exported]
) -> jax.export.Exported:
    """Returns `finish(exported)`, and applies `finish` to its derivatives, too, which JAX exports on demand."""
    finished = finish(exported)
    get_vjp: Any = getattr(exported, "_get_vjp", None)
    if get_vjp is None:
        return finished
    return dataclasses.replace(finished, _get_vjp=lambda primal: with_vjps(get_vjp(primal), finish))


def refined(module: Any) -> Any:
    """Makes all shapes static in a module whose arguments have static shapes, like JAX when it compiles.

    Raises:
        ValueError: a shape cannot become static.
    """
    try:
        from jax._src.interpreters.mlir import refine_polymorphic_shapes
    except ImportError as error:
        raise NotImplementedError("callout.export: this JAX does not refine symbolic shapes") from error
    return refine_polymorphic_shapes(module)


def symbols_of(extent: Any) -> set[str]:
    """Returns the names of an extent's dimension variables; none for a number. JAX has no public function for this."""
    return set() if isinstance(extent, int) or not hasattr(extent, "_get_vars") else set(extent._get_vars())


def extent_for(extent: Any, values: Mapping[str, int]) -> int:
    """Returns the value of an extent for values of its dimension variables. JAX has no public function for this."""
    return extent if isinstance(extent, int) else int(extent._evaluate(dict(values)))


def hoisting_functions() -> list[tuple[Any, str]]:
    """Returns the module and the name of JAX's function that moves loop-invariant equations; empty if JAX lacks it."""
    try:
        from jax._src.lax.control_flow import loops
    except ImportError:
        loops = None  # type: ignore[assignment]
    if not hasattr(loops, "_scan_known_hoisting"):
        MISSING.append("jax._src.lax.control_flow.loops._scan_known_hoisting")
        return []
    return [(loops, "_scan_known_hoisting")]


def remat_rules() -> dict[Any, Any]:
    """Returns JAX's rules that split an equation of a rematerialised jaxpr: `rule(policy, unknown, instantiated, eqn)`."""
    rules: dict[Any, Any] | None = getattr(partial_eval, "partial_eval_jaxpr_custom_rules", None)
    if rules is None:
        MISSING.append("jax.interpreters.partial_eval.partial_eval_jaxpr_custom_rules")
        return {}
    return rules


def register_partial_eval_rule(primitive: Any, rule: Callable[..., Sequence[Any]]) -> None:
    """Registers a partial evaluation rule, which splits known from unknown: `rule(trace, *tracers, **params)`."""
    rules = getattr(partial_eval, "custom_partial_eval_rules", None)
    if rules is None:
        MISSING.append("jax.interpreters.partial_eval.custom_partial_eval_rules")
    else:
        rules[primitive] = rule


def stage(trace: Any, tracers: Sequence[Any], eqn: Any) -> list[Any]:
    """Adds an equation to the unknown side, even if all operands are known, and returns its results."""
    operands = [trace.instantiate_const(trace.to_jaxpr_tracer(tracer)) for tracer in tracers]
    unknown = partial_eval.PartialVal.unknown
    outs = [partial_eval.JaxprTracer(trace, unknown(var.aval), None) for var in eqn.outvars]
    source = _source_info.current().replace(name_stack=trace._current_truncated_name_stack())
    recipe = _partial_eval.new_eqn_recipe(trace, operands, outs, eqn.primitive, eqn.params, eqn.effects, source)
    if eqn.effects:
        trace.effect_handles.append(_partial_eval.EffectHandle(operands, recipe))
    for out in outs:
        out.recipe = recipe
    return outs


try:
    from jax._src import source_info_util as _source_info
    from jax._src.interpreters import partial_eval as _partial_eval
except ImportError:
    _source_info = _partial_eval = None  # type: ignore[assignment]
    MISSING.append("jax._src.interpreters.partial_eval")

can_stage = hasattr(_partial_eval, "new_eqn_recipe") and hasattr(_partial_eval, "EffectHandle")
"""True if `stage` works with this JAX."""

if not can_stage:
    MISSING.append("jax._src.interpreters.partial_eval.EffectHandle")
