# SPDX-License-Identifier: Apache-2.0
"""The functions that processes.py runs in their own processes. Each returns the row's text, or raises an error."""

from __future__ import annotations

import os
from typing import Any

import sources
from rows import WrongError, expect, gpu


def _x(first: float = 0, size: int = 1024) -> Any:
    import jax
    import numpy as np

    return jax.device_put(np.arange(size, dtype=np.float32) + first, gpu())


def _everything(heard: list[Any]) -> Any:
    """Returns a program with a kernel, a call and a tap of 5 leaves: x -> 2 x + 1."""
    import callout
    import jax

    def program(x: Any) -> Any:
        callout.tap(lambda values: heard.append(values[0]), [x, x[0], x[1], x[2], x[3]])
        y = sources.scale(2.0)(x)
        return callout.pure_callback(lambda v: v + 1, jax.ShapeDtypeStruct(y.shape, y.dtype), y)

    return jax.jit(program)


def everything() -> str:
    """Runs all handlers, several programs one after another, and larger operands."""
    import callout

    heard: list[Any] = []
    program = _everything(heard)
    for size in (1024, 1 << 16):
        for i in range(4):
            x = _x(i, size)
            expect(f"run {i} of {size}", 2 * x + 1, program(x))
    callout.barrier_wait()
    expect("taps", [float(i) for i in range(4)] * 2, [float(value[0]) for value in heard])
    return f"{len(heard)} runs"


def profiled() -> str:
    """Runs `everything` while JAX's profiler records, which must write its files."""
    import tempfile
    from pathlib import Path

    import jax

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            text = everything()
        traces = [path for path in Path(folder).rglob("*.xplane.pb") if path.stat().st_size > 0]
    expect("traces", 1, len(traces))
    return text


def exit_with_taps() -> str:
    """Ends the process while taps are on their way, all of which must be delivered first."""
    import callout
    import jax
    import jax.numpy as jnp

    file = os.environ["CALLOUT_CHECK_FILE"]
    sink = callout.sinks.JsonLines(file)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 500, lambda _, c: callout.tap(sink, c) + 1, x))
    loop(jax.device_put(jnp.zeros(1024), gpu()))
    return "left"


def fork_after_use() -> str:
    """Forks: the child must raise an error for CUDA, and the parent must work on."""
    import callout

    heard: list[Any] = []
    program = _everything(heard)
    expect("before", 2 * _x() + 1, program(_x()))
    callout.barrier_wait()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            callout.tap(heard.append, 1.0)
        except callout.ForkError:
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    expect("the child's exit code", 0, os.waitstatus_to_exitcode(status))
    expect("after", 2 * _x(1) + 1, program(_x(1)))
    callout.barrier_wait()
    expect("taps", [0.0, 1.0], [float(value[0]) for value in heard])
    return ""


def taps_after_a_fault() -> str:
    """Runs programs with taps and calls after a permanent error: they must fail, and no thread may wait for ever."""
    import callout
    import jax

    heard: list[Any] = []
    program = _everything(heard)
    expect("before", 2 * _x() + 1, program(_x()))
    callout.barrier_wait()
    fault = jax.jit(sources.module().out_of_bounds.options(grid=1, block=1))
    x, failed = _x(), []
    for run in (fault, program, program):
        try:
            jax.block_until_ready(run(x))
            failed.append("nothing")
        except Exception as error:  # noqa: BLE001 - the class depends on who reports the error first
            failed.append(str(error).splitlines()[0])
    if any("ILLEGAL_ADDRESS" not in text and "illegal" not in text for text in failed):
        raise WrongError(f"expected CUDA_ERROR_ILLEGAL_ADDRESS each time, got {failed}")
    try:
        callout.barrier_wait(timeout=30)
    except callout.BarrierTimeout as error:
        raise WrongError(f"the barrier still waited: {error}") from error
    except Exception as error:  # noqa: BLE001 - the barrier raises a tap's error
        failed.append(str(error).splitlines()[0])
    expect("taps before it", [0.0], [float(value[0]) for value in heard[:1]])
    return failed[1]


def nested_product() -> str:
    """Runs a callback that compiles a matrix product on the device that calls it."""
    import callout
    import jax
    import numpy as np

    def inner(x: Any) -> Any:
        return np.asarray(jax.jit(lambda m: (m @ m).sum(1))(jax.device_put(x, gpu())))

    x = np.ones((64, 64), np.float32)
    shape = jax.ShapeDtypeStruct((64,), np.float32)
    program = jax.jit(lambda x: callout.pure_callback(inner, shape, x))
    expect("the product", x @ x @ np.ones(64, np.float32), program(jax.device_put(x, gpu())))
    return "ends"


def nested_product_compiled_before() -> str:
    """Runs a callback with a matrix product that was compiled before."""
    import jax
    import jax.numpy as jnp

    jax.block_until_ready(jax.jit(lambda m: (m @ m).sum(1))(jnp.ones((64, 64), jnp.float32, device=gpu())))
    return nested_product()
