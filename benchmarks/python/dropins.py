# SPDX-License-Identifier: Apache-2.0
"""Each drop-in beside JAX's own: a call in a loop, a dispatch, an eager call; unordered and ordered."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import callout
import jax
import jax.numpy as jnp
from dispatch import Dispatch, plain
from jax.experimental import io_callback
from loop import Loop
from measure import Contender, Row, compare
from methods import counter
from program import JAX, OURS, Method, identity, like

Entry = tuple[str, str, Any]
IO: Sequence[Entry] = (("callout.io_callback", OURS, callout.io_callback), ("jax io_callback", JAX, io_callback))
DEBUG: Sequence[Entry] = (
    ("callout.debug_callback", OURS, callout.debug_callback),
    ("jax.debug.callback", JAX, jax.debug.callback),
)
PURE: Sequence[Entry] = (
    ("callout.pure_callback", OURS, callout.pure_callback),
    ("jax.pure_callback", JAX, jax.pure_callback),
)


def _method(label: str, role: str, apply: Callable[[jax.Array], jax.Array], received: Any = None) -> Method:
    return Method(label, role, apply, slow=role == JAX, synchronous=True, received=received)


def _io(entry: Entry, ordered: bool) -> Method:
    label, role, call = entry
    return _method(label, role, lambda x: call(identity, like(x), x, ordered=ordered))


def _debug(entry: Entry, ordered: bool) -> Method:
    label, role, call = entry
    take, received = counter()

    def apply(x):
        call(take, x, ordered=ordered)
        return x

    return _method(label, role, apply, received)


def pure(entry: Entry) -> Method:
    label, role, call = entry
    return _method(label, role, lambda x: call(identity, like(x), x))


def _ordered_tap() -> Method:
    take, received = counter()
    return Method("callout.tap", OURS, lambda x: callout.tap(take, x, ordered=True), received=received)


def methods(kind: str, ordered: bool) -> list[Method]:
    """The drop-in and its original; the ordered tap beside the debug callbacks."""
    if kind == "io_callback":
        return [_io(entry, ordered) for entry in IO]
    return [*(_debug(entry, ordered) for entry in DEBUG), *([_ordered_tap()] if ordered else [])]


def _loops(kind: str, ordered: bool, rounds: int) -> Row:
    contenders = []
    for method in methods(kind, ordered):
        loop = Loop(method, (), 2_000 if method.slow else 20_000, False)
        contenders.append(Contender(method.label, method.role, loop.play))
    word = "ordered" if ordered else "unordered"
    return compare(f"{kind}/{word}", f"{kind}, {word}, f32 scalar in a loop", "us", contenders, rounds)


def _dispatches(kind: str, ordered: bool, rounds: int) -> Row:
    contenders = [
        Contender(m.label, m.role, Dispatch(m, 100 if m.slow else 500).play) for m in (plain(), *methods(kind, ordered))
    ]
    word = "ordered" if ordered else "unordered"
    title = f"a jitted function with one {kind}, {word}, dispatched and run"
    return compare(f"dispatch/{kind}/{word}", title, "us", contenders, rounds)


def _eager_contender(label: str, role: str, call: Callable[[jax.Array], Any], count: int) -> Contender:
    x = jnp.zeros((), jnp.float32)
    call(x)

    def play() -> dict[str, float]:
        start = time.perf_counter()
        for _ in range(count):
            call(x)
        seconds = time.perf_counter() - start
        callout.barrier_wait()
        jax.effects_barrier()
        return {"a call": seconds / count * 1e6}

    return Contender(label, role, play)


def _ignore(_: Any) -> None:
    pass


def _eager(rounds: int) -> list[Row]:
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    plain = [
        _eager_contender(label, role, lambda x, f=f: f(identity, shape, x), 300) for label, role, f in (*PURE, *IO)
    ]
    ordered = [
        _eager_contender(f"{label}, ordered", role, lambda x, f=f: f(identity, shape, x, ordered=True), 300)
        for label, role, f in IO
    ]
    shown = [_eager_contender(label, role, lambda x, f=f: f(_ignore, x), 300) for label, role, f in DEBUG]
    tap = _eager_contender("callout.tap", OURS, lambda x: callout.tap(_ignore, x), 300)
    return [
        compare("eager/results", "a callback with a result, eager", "us", [*plain, *ordered], rounds),
        compare("eager/none", "a callback without a result, eager", "us", [*shown, tap], rounds),
    ]


def run(rounds: int) -> list[Row]:
    kinds = [(kind, ordered) for kind in ("io_callback", "debug_callback") for ordered in (False, True)]
    rows = [row(kind, ordered, rounds) for row in (_loops, _dispatches) for kind, ordered in kinds]
    return rows + _eager(rounds)
