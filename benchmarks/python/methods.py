# SPDX-License-Identifier: Apache-2.0
"""The compared methods: of calling the identity from inside a program, and of sending a value out of it."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
from callout.progress import progress
from jax.experimental import io_callback
from program import EMPTY, FLOOR, JAX, OURS, TVM, Method, ffi, identity, like


def _ffi_look(target: str) -> Callable[[jax.Array], jax.Array]:
    def apply(x):
        jax.ffi.ffi_call(target, (), has_side_effect=True)(x)
        return x

    return apply


def _ours(fn: Any) -> Callable[[jax.Array], jax.Array]:
    return lambda x: callout.pure_callback(fn, like(x), x)


def call_methods(large: bool, missing: dict[str, str]) -> list[Method]:
    """Returns methods of the identity on the host. `large`: the floor copies an owned argument and a result."""
    quick = callout.options(identity, numpy_only=True)
    view = callout.options(identity, numpy_only=True, zero_copy=True)
    floor = "floor_copy_twice" if large else "floor_copy"
    methods = [
        Method("empty loop", EMPTY, identity),
        Method("floor: C++ FFI handler" + (", 2 copies" if large else ""), FLOOR, ffi(floor)),
        Method("callout, C++ function", OURS, _ours("bench.copy")),
        Method("callout, Python", OURS, _ours(identity), synchronous=True),
        Method("callout, Python, numpy_only", OURS, _ours(quick), asynchronous=True),
        Method("callout, Python, zero_copy", OURS, _ours(view), asynchronous=True),
        Method("jax-tvm-ffi, C++ function", TVM, ffi("tvm_cpp")),
        Method("jax-tvm-ffi, Python", TVM, ffi("tvm_python"), slow=large),
        Method(
            "jax.pure_callback", JAX, lambda x: jax.pure_callback(identity, like(x), x), slow=True, synchronous=True
        ),
    ]
    gone = {"jax-tvm-ffi, C++ function": "tvm_cpp", "jax-tvm-ffi, Python": "tvm_python"}
    return [method for method in methods if gone.get(method.label) not in missing]


def counter() -> tuple[Callable[..., None], Callable[[], int]]:
    seen = [0]

    def take(value: Any) -> None:
        seen[0] += 1

    return take, lambda: seen[0]


def _delivered_to(label: str) -> Callable[[], int]:
    return lambda: callout.stats()["callbacks"].get(label, {"calls": 0})["calls"]


def _tap(target: Any, received: Callable[[], int], label: str, **more: Any) -> Method:
    return Method(label, OURS, lambda x: callout.tap(target, x), received=received, **more)


def _jax_tap(kind: str) -> Method:
    take, received = counter()

    def apply(x):
        if kind == "io_callback":
            io_callback(take, None, x, ordered=False)
        else:
            jax.debug.callback(take, x, ordered=kind == "ordered")
        return x

    label = {"io_callback": "jax io_callback", "ordered": "jax.debug.callback, ordered"}.get(kind, "jax.debug.callback")
    return Method(label, JAX, apply, slow=True, synchronous=True, received=received)


def tap_methods(large: bool, folder: Path) -> list[Method]:
    take, received = counter()
    null = callout.sinks.Null(name="bench.null")
    methods = [
        Method("empty loop", EMPTY, identity),
        Method(
            "floor: C++ FFI handler" + (", 1 copy" if large else ""),
            FLOOR,
            _ffi_look("floor_take" if large else "floor_look"),
        ),
        _tap(take, received, "callout.tap, Python"),
        _tap(null, _delivered_to("bench.null"), "callout.tap, native sink"),
    ]
    if not large:
        methods.append(_json_lines(folder))
    return [*methods, _jax_tap("debug"), _jax_tap("io_callback")]


def _json_lines(folder: Path) -> Method:
    path = Path(tempfile.mkstemp(suffix=".jsonl", dir=folder)[1])
    sink = callout.sinks.JsonLines(path, name=f"bench.{path.stem}")

    def values() -> list[float]:
        values = [json.loads(line)["value"] for line in path.read_text().splitlines()]
        return [value[0] if isinstance(value, list) else value for value in values]

    return _tap(sink, _delivered_to(f"bench.{path.stem}"), "callout.tap, JSON-lines file", values=values)


def dispatch_taps() -> list[Method]:
    return [*(m for m in tap_methods(True, Path()) if m.role != FLOOR), _jax_tap("ordered")]


def dispatch_watches() -> list[Method]:
    """A watch, and a bar around a loop of ten steps beside that loop."""
    bar = progress(10, tqdm_type="std", desc="benchmark")

    def loop(step: Callable[[Any, Any], Any]) -> Callable[[jax.Array], jax.Array]:
        return lambda x: jax.lax.fori_loop(0, 10, step, x)

    return [
        Method("callout.watch", OURS, lambda x: callout.watch(x, "benchmark")),
        Method("plain jit, a loop of 10 steps", EMPTY, loop(lambda _, x: x)),
        Method("callout.progress, a loop of 10 steps", OURS, loop(bar(lambda _, x: x)), slow=True),
    ]


def ordered_taps() -> list[Method]:
    """Returns taps that are ordered by JAX's effect, and by a data dependence."""

    def method(label: str, transform: Callable[..., Any], slow: bool) -> Method:
        take, received = counter()
        apply = transform(lambda x: callout.tap(take, x, ordered=True))
        return Method(label, OURS, apply, slow=slow, received=received)

    return [
        method("callout.tap, ordered, callout.threaded", callout.threaded, slow=False),
        method("callout.tap, ordered", identity, slow=True),
        _jax_tap("ordered"),
    ]
