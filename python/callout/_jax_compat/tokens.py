# SPDX-License-Identifier: Apache-2.0
"""JAX's runtime tokens: where programs with effects leave them, and waiting for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .effects import Effect
from .versions import MISSING


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
