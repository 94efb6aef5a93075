# SPDX-License-Identifier: Apache-2.0
"""How the gradient of a scan moves loop-invariant equations out of the loop, and how an equation stays in the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.interpreters import partial_eval

from .versions import MISSING


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


def keeps(policy: Callable[..., Any], eqn: Any) -> bool:
    """Tells whether a policy of `jax.checkpoint` keeps an equation's results, here or elsewhere."""
    answer = policy(eqn.primitive, *[atom.aval for atom in eqn.invars], **eqn.params)
    return answer not in (False, _recompute)


def register_partial_eval_rule(primitive: Any, rule: Callable[..., Sequence[Any]]) -> None:
    """Registers what becomes of an equation when a trace splits known from unknown: `rule(trace, *tracers, **params)`."""
    rules = getattr(partial_eval, "custom_partial_eval_rules", None)
    if rules is None:
        MISSING.append("jax.interpreters.partial_eval.custom_partial_eval_rules")
    else:
        rules[primitive] = rule


def stage(trace: Any, tracers: Sequence[Any], eqn: Any) -> list[Any]:
    """Returns the results of an equation, which becomes part of the unknown side even if all operands are known."""
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

    _recompute: Any = getattr(_partial_eval, "Recompute", False)
except ImportError:
    _source_info = _partial_eval = None  # type: ignore[assignment]
    _recompute = False
    MISSING.append("jax._src.interpreters.partial_eval")

can_stage = hasattr(_partial_eval, "new_eqn_recipe") and hasattr(_partial_eval, "EffectHandle")
"""Tells whether `stage` works with this JAX."""

if not can_stage:
    MISSING.append("jax._src.interpreters.partial_eval.EffectHandle")
