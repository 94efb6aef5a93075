# SPDX-License-Identifier: Apache-2.0
"""JAX's effects: which are allowed where, and which are of JAX's own callbacks and mutable arrays."""

from __future__ import annotations

from typing import Any

from jax.interpreters import mlir

from .versions import JAX_VERSION, MISSING


def register_effect(effect: type[Effect], *, ordered: bool = False, remat: bool = True) -> None:
    """Allows an effect in lowering, control flow, custom derivatives and, if so told, remat; ordered ones on shards too.

    Only `lowerable_effects` is public. Without `partial_eval_kept` a tap without a used result is lost in the gradient of
    a scan.
    """
    mlir.lowerable_effects.add_type(effect)
    try:
        from jax._src import effects
    except ImportError:
        MISSING.append("jax._src.effects")
        return
    names = ["control_flow_allowed", "custom_derivatives_allowed", "partial_eval_kept"]
    names += ["remat_allowed"] if remat else []
    names += ["ordered", "shardable_ordered"] if ordered else []
    for name in names:
        allowed = getattr(effects, f"{name}_effects", None)
        if allowed is None:
            MISSING.append(f"jax._src.effects.{name}_effects")
        else:
            allowed.add_type(effect)


def io_effects() -> set[Any]:
    """Returns the effects of JAX's own `io_callback`, which JAX's rules for `vmap` of cond and while look for."""
    try:
        from jax._src.callback import _IOEffect, _OrderedIOEffect

        return {_IOEffect, _OrderedIOEffect}
    except ImportError:
        MISSING.append("jax._src.callback._IOEffect")
        return set()


_io_effects = io_effects()


def is_refused_in_vmap(jaxpr: Any) -> bool:
    """Tells whether JAX's `vmap` of cond and while refuses this branch or body: for an io callback of JAX's, or a Ref."""
    return any(effect in _io_effects or is_state_effect(effect) for effect in jaxpr.effects)


def ordered_effects(jaxpr: Any) -> set[Any]:
    """Returns the effects of a jaxpr that JAX keeps in order, by tokens that its equations have to declare."""
    return set(_ordered.filter_in(jaxpr.effects)) if _ordered is not None else set()


def is_state_effect(effect: Any) -> bool:
    """Returns True for the effects of mutable arrays, which belong to one operand of an equation."""
    return _input_effect is not None and isinstance(effect, _input_effect)


def is_ref_type(aval: Any) -> bool:
    """Returns True for the type of a mutable array."""
    return _ref_type is not None and isinstance(aval, _ref_type)


if JAX_VERSION >= (0, 12):
    # What most of callout imports when it is first used, which may be within a trace. It imports Pallas, whose settings
    # every trace is kept with since 0.12: that program would be traced and compiled once more at its second call.
    import jax.extend.core  # noqa: F401 - it is there

try:
    # The same class as jax.extend.core's; but importing that imports Pallas, which takes as long as all of callout.
    from jax._src.effects import Effect as Effect
except ImportError:
    from jax.extend.core import Effect as Effect

try:
    from jax._src import effects as _effects

    _input_effect: Any = getattr(_effects, "JaxprInputEffect", None)
    _ordered: Any = getattr(_effects, "ordered_effects", None)
except ImportError:
    _input_effect = _ordered = None

try:
    from jax._src.state.types import AbstractRef as _AbstractRef

    _ref_type: Any = _AbstractRef
except ImportError:
    _ref_type = None
    MISSING.append("jax._src.state.types.AbstractRef")

if _ordered is None:
    MISSING.append("jax._src.effects.ordered_effects")
if _input_effect is None:
    MISSING.append("jax._src.effects.JaxprInputEffect")
