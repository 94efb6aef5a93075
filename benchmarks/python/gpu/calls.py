# SPDX-License-Identifier: Apache-2.0
"""Measures callbacks with results on a GPU, beside JAX's, and checks programs that used to hang or abort."""

from __future__ import annotations

from typing import Any

from direct import pinned_rate
from rows import ON_SOFTWARE, Group, NotRunError, WrongError, expect, gpu, microseconds, need, side_by_side

GROUP = Group("calls")
# Bytes and steps.
_STEPS = {4: 300, 1 << 10: 300, 1 << 20: 50, 64 << 20: 3}


def _double(x: Any) -> Any:
    return x + x


def _array(size_bytes: int) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.device_put(jnp.ones(size_bytes // 4, jnp.float32), gpu())


@GROUP.row("pure_callback, io_callback, debug_callback: right results")
def right() -> str:
    import callout
    import jax
    import jax.numpy as jnp

    x = jax.device_put(jnp.arange(5, dtype=jnp.float32), gpu())
    expect("pure", 2 * x, jax.jit(lambda x: callout.pure_callback(_double, x, x))(x))
    expect("io", 2 * x, jax.jit(lambda x: callout.io_callback(_double, x, x, ordered=True))(x))
    heard: list[Any] = []
    jax.jit(lambda x: callout.debug_callback(lambda v: heard.append(v.sum()), x))(x)
    callout.barrier_wait()
    expect("debug", [10.0], heard)
    return ""


@GROUP.row('memory="device": the device\'s arrays in and out')
def on_device() -> str:
    import callout
    import jax

    x = _array(1 << 12)
    libraries = []
    for library in ("cupy", "torch"):
        try:
            module = need(library)
        except NotRunError:
            continue

        def double(v: Any, module: Any = module) -> Any:
            return module.from_dlpack(v) * 2

        call = callout.options(double, memory="device")
        program = jax.jit(lambda x, call=call: callout.pure_callback(call, x, x + 1) + 1)
        for _ in range(3):
            expect(f"2 (x + 1) + 1 by {library}", 2 * (x + 1) + 1, program(x))
        libraries.append(library)
    if not libraries:
        raise NotRunError("needs cupy or torch, and hardware that runs their kernels")
    return ", ".join(libraries)


@GROUP.row("an exception fails the program, and the next one runs")
def raises() -> str:
    import callout
    import jax

    def bad(x: Any) -> Any:
        raise ValueError("odd")

    x = _array(16)
    try:
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(bad, x, x))(x))
    except RuntimeError as error:
        if "odd" not in str(error):
            raise WrongError(f"expected the exception's text, got {error}") from error
    else:
        raise WrongError("the program succeeded")
    expect("next", 2 * x, jax.jit(lambda x: callout.pure_callback(_double, x, x))(x))
    return ""


@GROUP.row("a callback that runs JAX on the same device")
def uses_jax() -> str:
    import callout
    import jax

    def inner(x: Any) -> Any:
        return jax.jit(_double)(jax.device_put(x, gpu()))

    x = _array(1 << 10)
    expect("2x", 2 * x, jax.jit(lambda x: callout.pure_callback(inner, x, x))(x))
    return ""


def _loop(callback: Any, steps: int, function: Any = None) -> Any:
    import jax

    def step(_: Any, v: Any) -> Any:
        return callback(function or _first, jax.ShapeDtypeStruct(v.shape, v.dtype), v)

    return jax.jit(lambda x: jax.lax.fori_loop(0, steps, step, x))


def _first(x: Any) -> Any:
    return x


def _round_trip(size: int) -> str:
    import callout
    import jax

    steps = 4 if ON_SOFTWARE else _STEPS[size]
    x = _array(min(size, 1 << 16) if ON_SOFTWARE else size)
    lent = callout.options(_first, zero_copy=True)
    on_device = callout.options(_first, memory="device")
    loops = {
        "ours": _loop(callout.pure_callback, steps),
        "JAX": _loop(jax.pure_callback, steps),
        "ours, zero_copy": _loop(callout.pure_callback, steps, lent),
        'ours, memory="device"': _loop(callout.pure_callback, steps, on_device),
    }
    figures = [microseconds(lambda f=f: f(x), calls=steps) for f in loops.values()]
    text = side_by_side([*loops], figures)
    if size < 1 << 20:
        return text
    rate = 2 * size / figures[0] / 1e3
    return f"{text}; {rate:.1f} GB/s both ways, a pinned copy {pinned_rate(size):.1f} GB/s"


@GROUP.row("round trip of 4 B")
def bytes_4() -> str:
    return _round_trip(4)


@GROUP.row("round trip of 1 KB")
def bytes_1k() -> str:
    return _round_trip(1 << 10)


@GROUP.row("round trip of 1 MB")
def bytes_1m() -> str:
    return _round_trip(1 << 20)


@GROUP.row("round trip of 64 MB")
def bytes_64m() -> str:
    return _round_trip(64 << 20)
