# SPDX-License-Identifier: Apache-2.0
"""Measures calls and taps by JAX's own callbacks, as on platforms without a native path.

Contenders are JAX's functions, and the bare callback under both, whose function gets NumPy arrays.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import callout
from dispatch import Dispatch, plain
from jax.extend.core import Primitive
from jax.interpreters import mlir
from loop import Loop
from measure import Contender, Row, compare
from methods import call_methods, tap_methods
from program import EMPTY, FLOOR, JAX, OURS, Method, steps

BARE = "bare callback of JAX"
FLOORS = ("empty loop", "floor: C++ FFI handler")


def _bare() -> Method:
    """Returns the identity by JAX's bare custom call."""
    primitive = Primitive("benchmark_bare_callback")
    primitive.def_abstract_eval(lambda x: x)

    def lower(ctx: Any, x: Any) -> Any:
        results, _, _ = mlir.emit_python_callback(
            ctx, lambda x: (x,), None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False
        )
        return results

    mlir.register_lowering(primitive, lower)
    return Method(BARE, JAX, primitive.bind, slow=True, synchronous=True)


def _slow(methods: Sequence[Method], ours: Sequence[str]) -> list[Method]:
    """Selects from the native path's methods: JAX's own, and those of `ours` that can use JAX's callbacks."""
    kept = [m for m in methods if m.label in (*FLOORS, *ours) or m.role == JAX]
    for method in kept:
        method.slow = method.synchronous = method.role in (OURS, JAX)
    return kept


def _loop(key: str, title: str, methods: Sequence[Method], rounds: int) -> Row:
    contenders = [Contender(m.label, m.role, Loop(m, (), steps("scalar", m.slow), False).play) for m in methods]
    return compare(key, title, "us", contenders, rounds)


def _dispatch(methods: Sequence[Method], rounds: int) -> Row:
    title = "by JAX's callbacks: a jitted function with one of them, dispatched and run"
    used = [plain(), *(m for m in methods if m.role not in (EMPTY, FLOOR))]
    contenders = [Contender(m.label, m.role, Dispatch(m, 200).play) for m in used]
    return compare("fallback/dispatch", title, "us", contenders, rounds)


def _measured(rounds: int, folder: Path) -> list[Row]:
    calls = [*_slow(call_methods(False, {"tvm_cpp": "", "tvm_python": ""}), ["callout, Python"]), _bare()]
    taps = _slow(tap_methods(True, folder), ["callout.tap, Python", "callout.tap, native sink"])
    return [
        _loop("fallback/call", "call by JAX's callbacks, f32 scalar", calls, rounds),
        _loop("fallback/tap", "tap by JAX's callbacks, f32 scalar", taps, rounds),
        _dispatch([*calls, *taps], rounds),
    ]


def run(rounds: int, folder: Path) -> list[Row]:
    before, callout.config.fallback = callout.config.fallback, "always"
    try:
        return _measured(rounds, folder)
    finally:
        callout.config.fallback = before
