# SPDX-License-Identifier: Apache-2.0
"""Checks recordings: XLA's command buffers, and simultaneous recordings of other code."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, Self

import sources
from direct import POINTER, Driver
from own_process import run_alone
from rows import Group, WrongError, expect, gpu

GROUP = Group("recordings")
_KINDS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,COLLECTIVES,CONDITIONAL,WHILE"
OPTIONS = {"xla_gpu_graph_min_graph_size": 1, "xla_gpu_enable_command_buffer": _KINDS}
_REPLAYS = 20


def _launches() -> int:
    from callout import _ext

    return _ext.image_counts()[0]


def _x(shape: tuple[int, ...] = (8, 8), first: float = 0) -> Any:
    import jax
    import numpy as np

    return jax.device_put(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + first, gpu())


def _replayed(program: Callable[[Any], Any], expected: Callable[[Any], Any], launches: int, **options: Any) -> str:
    """Runs a program of `launches` launches with different arrays until XLA records it, and then replays it."""
    import jax

    compiled = jax.jit(program, compiler_options={**OPTIONS, **options})
    kept = [_x(first=i) for i in range(6)]  # kept, so that addresses differ
    for i, x in enumerate(kept):
        expect(f"array {i}", expected(x), compiled(x))
    before = _launches()
    for _ in range(_REPLAYS):
        expect("a replay", expected(kept[-1]), compiled(kept[-1]))
    through = _launches() - before
    if through >= _REPLAYS * launches:
        raise WrongError(f"all {through} launches went through the handler: XLA recorded none")
    return f"{through} of {_REPLAYS * launches} launches went through the handler"


@GROUP.row("lanes of a vmap, recorded")
def lanes() -> str:
    import jax

    kernel = sources.module().scale.options(
        launch_dims=lambda x, y: x.size, constants={"n": lambda x, y: x.size}, vmap_method="broadcast_all"
    )
    return _replayed(jax.vmap(lambda row: kernel(kernel(row, factor=2.0), factor=3.0)), lambda x: 6 * x, 16)


@GROUP.row("results in the place of their arguments, recorded")
def aliases() -> str:
    kernel = sources.scale(2.0).func.options(
        launch_dims=lambda x, y: x.size, constants={"n": lambda x, y: x.size}, input_output_aliases={0: 0}
    )
    return _replayed(lambda x: kernel(kernel(x + 1, factor=2.0), factor=2.0) + x, lambda x: 4 * (x + 1) + x, 2)


@GROUP.row("a loop whose steps are recorded")
def loop() -> str:
    import jax

    step = sources.scale(2.0)

    def steps(x: Any) -> Any:
        return jax.lax.fori_loop(0, 4, lambda _, v: step(v) + 1, x)

    ways = [{"xla_gpu_command_buffer_unroll_loops": unroll} for unroll in (False, True)]
    texts = [_replayed(steps, lambda x: 16 * x + 15, 4, **way) for way in ways]
    return f"{texts[0]}; unrolled: {texts[1]}"


@GROUP.row("a loop of unknown length and a branch, recorded")
def branch() -> str:
    import jax

    def body(v: Any) -> Any:
        return jax.lax.cond(v[0, 1] > 30, sources.scale(4.0), sources.scale(2.0), v)

    def expected(x: Any) -> Any:
        while x.max() < 1000:
            x = x * (4 if x[0, 1] > 30 else 2)
        return x

    program = lambda x: jax.lax.while_loop(lambda v: v.max() < 1000, body, x)  # noqa: E731 - the name has no meaning
    return _replayed(program, expected, 3)


def first_call_recorded() -> str:
    """Runs, in a new process, a program whose kernels were never launched, which XLA may record at once."""
    import jax

    scale = sources.scale(2.0)
    program = jax.jit(lambda x: scale(scale(x)), compiler_options=OPTIONS)
    for i in range(4):
        x = _x((64,), i)
        expect(f"run {i}", 4 * x, program(x))
    return f"{_launches()} of 8 launches went through the handler"


@GROUP.row("kernels of a new process, recorded as soon as XLA does")
def first_call() -> str:
    gpu()
    return run_alone(first_call_recorded)[0]


class _Foreign:
    """A thread that records in the mode in which no thread may call unsafe functions, until the end of the block."""

    def __init__(self) -> None:
        self.result = -1
        self._begun, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._record)

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _record(self) -> None:
        driver, graph = Driver(), POINTER()
        stream = driver.stream()
        driver.call("cuStreamBeginCapture", stream, 0)  # CU_STREAM_CAPTURE_MODE_GLOBAL
        self._begun.set()
        self._end.wait(60)
        end = driver.function("cuStreamEndCapture")
        assert end is not None
        self.result = end(stream, ctypes.byref(graph))


def _beside_a_recording(run: Callable[[], object]) -> int:
    with _Foreign() as foreign:
        run()
    return foreign.result


@GROUP.row("another thread's recording survives calls, taps and kernels")
def foreign() -> str:
    import callout
    import jax

    heard: list[Any] = []
    scale, shape = sources.scale(2.0), jax.ShapeDtypeStruct((1024,), "float32")

    @jax.jit
    def program(x: Any) -> Any:
        callout.tap(heard.append, x)
        return callout.pure_callback(lambda v: v + 1, shape, scale(x))

    x = _x((1024,))
    plain = jax.jit(lambda x: 2 * x + 1)

    def run(function: Callable[[Any], Any]) -> None:
        for _ in range(5):
            expect("2 x + 1", 2 * x + 1, function(x))
        callout.barrier_wait()

    run(plain)
    run(program)
    alone = _beside_a_recording(lambda: run(plain))
    heard.clear()
    ended = _beside_a_recording(lambda: run(program))
    expect("taps", [x] * 5, heard)
    if ended != 0:
        raise WrongError(f"the recording ended with error {ended}, beside XLA alone with {alone}")
    return ""
