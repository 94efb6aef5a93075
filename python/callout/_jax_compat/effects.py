# SPDX-License-Identifier: Apache-2.0
"""Registers effects with JAX, and waits for the runtime tokens of programs with effects.

This file also knows the effects of JAX's own callbacks and of mutable arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.interpreters import mlir

from .versions import JAX_VERSION, MISSING


def register_effect(effect: type[Effect], *, ordered: bool = False, remat: bool = True) -> None:
    """Allows an effect in lowering, control flow, custom derivatives, and optionally remat; if ordered, also on shards.

    Only `lowerable_effects` is public. Without `partial_eval_kept`, the gradient of a scan would lose a tap whose
    result is unused.
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
    """Returns the effects of JAX's `io_callback`, which JAX's rules for `vmap` of cond and while reject."""
    try:
        from jax._src.callback import _IOEffect, _OrderedIOEffect

        return {_IOEffect, _OrderedIOEffect}
    except ImportError:
        MISSING.append("jax._src.callback._IOEffect")
        return set()


_io_effects = io_effects()


def is_refused_in_vmap(jaxpr: Any) -> bool:
    """Returns whether JAX's `vmap` of cond and while rejects this branch or body: for an io callback of JAX's, or a Ref."""
    return any(effect in _io_effects or is_state_effect(effect) for effect in jaxpr.effects)


def ordered_effects(jaxpr: Any) -> set[Any]:
    """Returns the effects of a jaxpr that JAX orders by tokens."""
    return set(_ordered.filter_in(jaxpr.effects)) if _ordered is not None else set()


def is_state_effect(effect: Any) -> bool:
    """Returns True for the effects of mutable arrays, which belong to one operand of an equation."""
    return _input_effect is not None and isinstance(effect, _input_effect)


def is_ref_type(aval: Any) -> bool:
    """Returns True for the type of a mutable array."""
    return _ref_type is not None and isinstance(aval, _ref_type)


if JAX_VERSION >= (0, 12):
    # Import this now, although most of callout would import it at its first use, which may be within a trace: since JAX
    # 0.12 the import of Pallas changes the settings in trace caches, so that the program would be traced and compiled
    # again at its second call.
    from jax.extend import core as _core  # noqa: F401

try:
    # This is the class of jax.extend.core, whose import of Pallas would take as long as the whole import of callout.
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
    """Replaces the list of tokens if JAX's tokens cannot be listed."""

    def block_until_ready(self) -> None:
        jax.effects_barrier()


def _wait_for_token(token: Any) -> None:
    """Waits for a program's end. Ignores its error, which JAX raises when the results are used."""
    try:
        token.block_until_ready()
    except Exception:  # noqa: BLE001
        pass


def wait_for_order(effect: Effect) -> None:
    """Waits for the end of this thread's last program with `effect`. Ignores its error."""
    token = _AllEffects() if _runtime_token_set is None else _runtime_token_set.current_tokens.get(effect)
    if token is not None:
        _wait_for_token(token)


def wait_for_all_effects() -> None:
    """Waits for the programs with effects that this thread has dispatched."""
    _wait_for_token(_AllEffects())


own_ordered_effects: set[Any] = set()
"""Callout's ordered effects, whose failed tokens must be dropped."""


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
    """Returns JAX's thread-local tokens of programs with effects; None if they are not as expected.

    The public `jax.effects_barrier` has no time limit and only waits for the calling thread's tokens.
    """
    return _runtime_token_set


def token_devices(token: Any) -> Sequence[jax.Device]:
    """Returns the devices of the program that returned an ordered effect's token; none if they are unknown."""
    devices = getattr(getattr(token, "_buf", None), "devices", None)
    return [] if devices is None else list(devices())
