# SPDX-License-Identifier: Apache-2.0
"""Measures each replacement of a JAX callback beside the original: in a loop and in dispatch, unordered and ordered."""

from collections.abc import Callable, Sequence
from typing import Any

import callout
import jax
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
    """Returns the replacement and the original, and the ordered tap beside the debug callbacks."""
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


def run(rounds: int) -> list[Row]:
    kinds = [(kind, ordered) for kind in ("io_callback", "debug_callback") for ordered in (False, True)]
    return [row(kind, ordered, rounds) for row in (_loops, _dispatches) for kind, ordered in kinds]
