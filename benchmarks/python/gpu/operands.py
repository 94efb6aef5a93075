# SPDX-License-Identifier: Apache-2.0
"""Checks special operands: packed dtypes, booleans, donated buffers, pinned host memory, and very many leaves."""

from __future__ import annotations

from typing import Any

import sources
from rows import ON_SOFTWARE, Group, WrongError, expect, gpu, microseconds, side_by_side

GROUP = Group("operands")
_LEAVES = 100


def _like(x: Any) -> Any:
    import jax

    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _through(x: Any, function: Any, expected: Any) -> None:
    """Checks that a call's argument and result, and a tap's value, pass unchanged through a program."""
    import callout
    import jax

    heard: list[Any] = []

    @jax.jit
    def program(x: Any) -> Any:
        callout.tap(heard.append, x)
        return callout.pure_callback(function, _like(x), x)

    for _ in range(2):
        result = program(x)
        expect("the call's result", expected, result.astype("float32"))
        expect("its dtype", str(x.dtype), str(result.dtype))
    callout.barrier_wait()
    expect("the taps", [x.astype("float32")] * 2, [value.astype("float32") for value in heard])


@GROUP.row("int4, uint4 and bool: calls and taps")
def small_dtypes() -> str:
    import jax.numpy as jnp
    import numpy as np

    for dtype, low in (("int4", -8), ("uint4", 0)):
        values = np.arange(low, low + 15, dtype=np.float32)  # an odd number of elements
        x = jnp.asarray(values, device=gpu()).astype(dtype)
        _through(x, lambda v: (v.astype(np.int8) + 1).astype(v.dtype), values + 1)
    bits = np.array([True, False, True])
    _through(jnp.asarray(bits, device=gpu()), np.logical_not, ~bits)
    return ""


@GROUP.row("bool operands of a kernel and of a buffer callback")
def bool_kernel() -> str:
    import jax
    import jax.numpy as jnp
    from callout.buffer_callback import buffer_callback

    x = jnp.asarray([True, False, True, True], device=gpu())
    flip = sources.flip().options(grid=1, block=4)
    expect("by a kernel", ~x, jax.jit(flip)(x))
    seen: list[Any] = []

    def look(ctx: Any, out: Any, x: Any) -> None:
        seen.append((str(x.dtype), x.nbytes))
        sources.copy_on_device(ctx.stream, out, x)

    expect("by a callback", x, jax.jit(buffer_callback(look, _like(x)))(x))
    expect("its buffer", ("bool", 4), seen[0])
    return ""


@GROUP.row("donated arguments")
def donated() -> str:
    import callout
    import jax
    import jax.numpy as jnp

    heard: list[Any] = []

    def program(x: Any) -> Any:
        callout.tap(heard.append, x)
        y = sources.scale(2.0)(x)
        return callout.pure_callback(lambda v: v + 1, _like(y), y)

    compiled = jax.jit(program, donate_argnums=0)
    for i in range(5):
        x = jnp.arange(1024, dtype=jnp.float32, device=gpu()) + i
        expect(f"run {i}", 2 * jnp.arange(1024.0) + 2 * i + 1, compiled(x))
        if not x.is_deleted():
            raise WrongError("the argument was not donated")
    callout.barrier_wait()
    expect("the taps", [jnp.arange(1024.0) + i for i in range(5)], heard)
    return ""


@GROUP.row("operands in the host's pinned memory")
def pinned_host() -> str:
    import callout
    import jax
    import numpy as np
    from jax.sharding import SingleDeviceSharding

    on_host = SingleDeviceSharding(gpu(), memory_kind="pinned_host")
    on_device = SingleDeviceSharding(gpu(), memory_kind="device")
    values = np.arange(1024, dtype=np.float32)
    x = jax.device_put(values, on_host)
    heard: list[Any] = []

    @jax.jit
    def program(x: Any) -> Any:
        x = jax.device_put(x, on_device)
        callout.tap(heard.append, x)
        y = callout.pure_callback(lambda v: v + 1, _like(x), sources.scale(2.0)(x))
        return jax.device_put(y, on_host)

    for _ in range(2):
        y = program(x)
        expect("2 x + 1", 2 * values + 1, y)
        expect("where it is", "pinned_host", y.sharding.memory_kind)
    callout.barrier_wait()
    expect("the taps", [values] * 2, heard)
    return ""


@GROUP.row("a tap of 100 leaves")
def many_leaves() -> str:
    import callout
    import jax
    import jax.numpy as jnp

    heard: list[Any] = []
    leaves = [jnp.full((i % 10 + 1,), i, jnp.float32, device=gpu()) for i in range(_LEAVES)]
    jax.block_until_ready(jax.jit(lambda v: callout.tap(heard.append, v))(leaves))
    callout.barrier_wait()
    for i, (leaf, got) in enumerate(zip(leaves, heard[0], strict=True)):
        expect(f"leaf {i}", leaf, got)

    sink, steps = callout.sinks.Null(), 2 if ON_SOFTWARE else 100

    def loop(tapped: bool) -> Any:
        def step(_: Any, v: Any) -> Any:
            return [leaf + 1 for leaf in (callout.tap(sink, v) if tapped else v)]

        return jax.jit(lambda v: jax.lax.fori_loop(0, steps, step, v))

    figures = [microseconds(lambda f=f: f(leaves), calls=steps) for f in (loop(False), loop(True))]
    callout.barrier_wait()
    return side_by_side(["a step", "with a tap"], figures)
