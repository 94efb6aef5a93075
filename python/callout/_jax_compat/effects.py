# SPDX-License-Identifier: Apache-2.0
"""Callout registers effects with JAX, and waits for the runtime tokens that programs with effects leave.

The effects of JAX's own callbacks and of mutable arrays are known here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
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
    import jax.extend.core

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


class _AllEffects:
    """Stands for all tokens where they cannot be listed."""

    def block_until_ready(self) -> None:
        jax.effects_barrier()


def _wait_for_token(token: Any) -> None:
    """Waits for a program's end. How it ended is for whoever uses its results: that is where JAX raises."""
    try:
        token.block_until_ready()
    except Exception:  # noqa: BLE001
        pass


def wait_for_order(effect: Effect) -> None:
    """Waits for the last program of this thread that had `effect`, however it ended."""
    token = _AllEffects() if _runtime_token_set is None else _runtime_token_set.current_tokens.get(effect)
    if token is not None:
        _wait_for_token(token)


def wait_for_all_effects() -> None:
    """Waits for the programs with effects that this thread has dispatched."""
    _wait_for_token(_AllEffects())


own_ordered_effects: set[Any] = set()
"""Our ordered effects, whose tokens must not stay failed."""


def _find_runtime_token_set() -> Any:
    try:
        from jax._src.dispatch import runtime_tokens
    except ImportError:
        MISSING.append("jax._src.dispatch.runtime_tokens")
        return None
    names = (
        *("current_tokens", "output_runtime_tokens"),
        *("get_token_input", "set_token_result", "set_output_runtime_token", "block_until_ready"),
    )
    missing = [f"runtime_tokens.{name}" for name in names if not hasattr(runtime_tokens, name)]
    MISSING.extend(missing)
    return None if missing else runtime_tokens


_runtime_token_set = _find_runtime_token_set()


def runtime_token_set() -> Any:
    """Returns the object in which JAX keeps each thread's tokens of programs with effects; None if it is not as expected.

    `jax.effects_barrier` is the public way to them. It has no time limit and sees the calling thread's tokens only.
    """
    return _runtime_token_set


def token_devices(token: Any) -> Sequence[jax.Device]:
    """Returns the devices of the program that returned an ordered effect's token; none if the token does not tell."""
    devices = getattr(getattr(token, "_buf", None), "devices", None)
    return [] if devices is None else list(devices())
