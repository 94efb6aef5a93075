# SPDX-License-Identifier: Apache-2.0
"""Checks that kernels run on a GPU, are captured, and survive export and the compilation cache. Measures their costs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import sources
from direct import graph_replay
from rows import Group, WrongError, expect, gpu, microseconds, side_by_side

GROUP = Group("kernels")
_STEPS = 1000


def _x(size: int = 1024) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.device_put(jnp.arange(size, dtype=jnp.float32), gpu())


@GROUP.row("CUDA C++ by NVRTC, jit")
def runs() -> str:
    import jax

    x = _x()
    expect("scale", 3 * x, jax.jit(sources.scale(3.0))(x))
    return f"{sources.module().arch}"


@GROUP.row("vmap, one launch a lane")
def lanes() -> str:
    import jax

    x = _x(64).reshape(8, 8)
    kernel = sources.module().scale.options(
        launch_dims=lambda x, y: x.size, constants={"n": lambda x, y: x.size}, vmap_method="broadcast_all"
    )
    expect("scale", 2 * x, jax.jit(jax.vmap(lambda row: kernel(row, factor=2.0)))(x))
    return ""


@GROUP.row("captured: replays do not go through the handler")
def captured() -> str:
    import jax
    from callout import _ext

    @jax.jit
    def program(x: Any) -> Any:
        for _ in range(8):
            x = sources.scale(2.0)(x)
        return x

    x = _x()
    for _ in range(5):  # XLA runs a program a few times before it captures the program
        jax.block_until_ready(program(x))
    before, _ = _ext.image_counts()
    for _ in range(100):
        expect("eight times 2", 256 * x, program(x))
    through = _ext.image_counts()[0] - before
    if through >= 100 * 8:
        raise WrongError(f"all {through} launches went through the handler: XLA did not capture them")
    return f"{through} of 800 launches went through the handler"


@GROUP.row("captured: other buffers, right results")
def other_buffers() -> str:
    import jax

    @jax.jit
    def program(x: Any) -> Any:
        for _ in range(8):
            x = sources.scale(2.0)(x)
        return x

    kept = []
    for i in range(40):
        x = _x() + i
        kept.append(x)  # kept, so that addresses differ
        expect(f"array {i}", 256 * x, program(x))
    return "40 arrays"


@GROUP.row("100 KB of dynamic shared memory")
def shared_memory() -> str:
    import jax

    n = 25_000
    kernel = sources.module().sum_shared.options(
        out=jax.ShapeDtypeStruct((1,), "float32"), grid=1, block=256, shared_mem=4 * n, constants={"n": n}
    )
    x = jax.numpy.ones(n, "float32", device=gpu())
    expect("sum", [n], jax.jit(kernel)(x))
    return ""


@GROUP.row("a fault of the device fails the program")
def fault() -> str:
    code = (
        "import jax, sources\n"
        "kernel = sources.module().out_of_bounds.options(grid=1, block=1)\n"
        "try: jax.block_until_ready(jax.jit(kernel)(jax.numpy.ones(4, 'float32')))\n"
        "except Exception as error: print('failed:', str(error).splitlines()[0])\n"
    )
    gpu()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    if "failed:" not in done.stdout:
        raise WrongError(f"expected an error of the program, got exit code {done.returncode}: {done.stderr[-200:]}")
    return done.stdout.strip()


_LOADER = """
import json, sys, jax, callout
loaded = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
print(json.dumps([float(v) for v in jax.jit(loaded.call)(jax.numpy.arange(4, dtype="float32"))]))
"""


@GROUP.row("exported, run by another process")
def exported() -> str:
    import callout
    import jax

    program = callout.export(jax.jit(sources.scale(2.0)), platforms=["cuda"])(_x(4))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.bin"
        file.write_bytes(program.serialize())
        done = subprocess.run(
            [sys.executable, "-c", _LOADER, str(file)], capture_output=True, text=True, timeout=120, check=True
        )
    expect("2x", [0, 2, 4, 6], json.loads(done.stdout))
    return f"{len(program.serialize())} bytes"


_CACHED = """
import sys, jax
import sources
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
x = jax.numpy.arange(4, dtype="float32")
print("result", [float(v) for v in jax.jit(sources.scale(2.0))(x)], "hit", any("cache_hits" in e for e in events))
"""


@GROUP.row("the compilation cache hits in another process")
def cached() -> str:
    gpu()
    with tempfile.TemporaryDirectory() as folder:
        said = []
        for _ in range(2):
            command = [sys.executable, "-c", _CACHED, folder]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
            said.append(done.stdout)
    expect("result", True, "result [0.0, 2.0, 4.0, 6.0]" in said[1])
    expect("hit", [False, True], ["hit True" in text for text in said])
    return ""


@GROUP.row("a host function of two kernels, built by nvcc")
def host_function() -> str:
    import jax

    x, built = _x(1000), sources.four_times()
    for setting in ({}, {"graph": True}, {"command_buffer_compatible": True}):
        program = jax.jit(built.options(**setting))
        for i in range(8):
            expect(f"4 (x + {i}), {setting}", 4 * (x + i), program(x + i))
    return ""


@GROUP.row("one call of a host function of two kernels in a loop")
def host_function_cost() -> str:
    import jax

    x, built = _x(1000), sources.four_times()

    def loop(call: Any) -> Any:
        return jax.jit(lambda x: jax.lax.fori_loop(0, _STEPS, lambda _, v: call(v), x))

    loops = [loop(built.options(graph=graph)) for graph in (False, True)]
    figures = [microseconds(lambda f=f: f(x), calls=_STEPS) for f in loops]
    return side_by_side(["graph=False", "graph=True"], figures)


@GROUP.row("one launch in a jitted loop")
def launch_cost() -> str:
    """Measures an uncaptured launch beside a design by ctypes: a callback that launches through Numba, under the GIL."""
    import jax

    nothing = sources.module().nothing.options(grid=1, block=1)
    on_its_place = nothing.options(input_output_aliases={0: 0})  # otherwise XLA copies in each step

    @jax.jit
    def ours(x: Any) -> Any:
        return jax.lax.fori_loop(0, _STEPS, lambda _, x: nothing(x), x)

    @jax.jit
    def in_place(x: Any) -> Any:
        return jax.lax.fori_loop(0, _STEPS, lambda _, x: on_its_place(x), x)

    @jax.jit
    def floor(x: Any) -> Any:
        return jax.lax.fori_loop(0, _STEPS, lambda _, x: x + 1, x)

    x = _x(4)
    figures = [microseconds(lambda program=program: program(x), calls=_STEPS) for program in (ours, in_place, floor)]
    names = ["ours", "ours, in place", "an XLA kernel"]
    text = side_by_side(names, figures)
    try:
        import brainevent
    except ImportError:
        return f"{text}; NOT RUN: brainevent's numba_cuda_kernel (not installed)"
    from numba import cuda

    @cuda.jit
    def empty(x: Any, y: Any) -> None:
        pass

    theirs = brainevent.numba_cuda_kernel(empty, jax.ShapeDtypeStruct((4,), "float32"), grid=1, block=1)

    @jax.jit
    def reference(x: Any) -> Any:
        return jax.lax.fori_loop(0, _STEPS, lambda _, x: theirs(x), x)

    try:
        figures.append(microseconds(lambda: reference(x), calls=_STEPS))
    except jax.errors.JaxRuntimeError as error:  # fails with some versions
        return f"{text}; NOT RUN: brainevent's numba_cuda_kernel fails: {str(error).splitlines()[0]}"
    return side_by_side([*names, "brainevent"], figures)


@GROUP.row("eight launches of a captured program")
def replay_cost() -> str:
    import jax

    nothing = sources.module().nothing.options(grid=1, block=1)

    @jax.jit
    def program(x: Any) -> Any:
        for _ in range(8):
            x = nothing(x)
        return x

    @jax.jit
    def xla(x: Any) -> Any:
        for _ in range(8):
            x = jax.lax.optimization_barrier(x + 1)
        return x

    x = _x(4)
    for _ in range(5):
        jax.block_until_ready((program(x), xla(x)))
    figures = [microseconds(lambda f=f: [f(x) for _ in range(100)][-1], calls=100) for f in (program, xla)]
    module = sources.module()
    replay = graph_replay(module.path.read_bytes(), "nothing", 8)
    figures.append(microseconds(lambda: replay(100), calls=100))
    return side_by_side(["ours", "XLA's kernels", "a CUDA graph by the driver alone"], figures, "us a program")
