# SPDX-License-Identifier: Apache-2.0
"""Counts calls of CUDA's driver by callbacks, beside JAX's own callbacks.

Usage: software_gpu/run python benchmarks/python/gpu/counts.py [--json FILE]
The software GPU suffices, because times have no influence.

`gil` is how often C code takes the GIL. A preloaded library counts it, if Python is a shared library.

Counts are differences between one execution of a program and of the program without its callback: the mean of several,
after two warm-ups. `queued` counts operations on streams: copies, launches, writes, host functions. `copies` counts the
copies among them, MB their bytes across the bus, `waits` the driver's calls that wait (Synchronize), `pinned` the calls
that pin memory or free it. Events and their queries are not counted, because their number depends on time.

The second table counts all calls of a program whose work is recorded into CUDA graphs, by `graph=True` and by XLA:
`called` is how often the host function ran, `recorded` the captures, `made` the executables, `updated` the calls that
change one.
"""

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

sys.path.append(str(Path(__file__).resolve().parent.parent))
from tables import as_json, as_markdown

ROUNDS = 4
SIZES = {"f32[]": (), "1 MB": (1 << 18,), "64 MB": (1 << 24,)}
SETS = 20  # sets of buffers in turn: more than graph=True and XLA cache recordings of
ACROSS = re.compile(r"cuMemcpy(?!DtoD)")
QUEUED = re.compile(r"cuMemcpy|cuMemset|cuLaunch|cuGraphLaunch|cuStream(Write|Wait)Value")
WAITS = re.compile(r"Synchronize")
RECORDED = re.compile(r"cuStreamBeginCapture")
MADE = re.compile(r"cuGraphInstantiate")
UPDATED = re.compile(r"cuGraphExec(Update|\w*SetParams)")
PINNED = re.compile(r"cuMemHostAlloc|cuMemFreeHost|cuMemHostRegister|cuMemHostUnregister")


def preload_counter() -> None:
    """Restarts this program with the preloaded library that counts how often the GIL is taken."""
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and "CALLOUT_GIL_COUNTER" not in os.environ:
        library = Path(tempfile.mkdtemp()) / "gil_counter.so"
        source = str(Path(__file__).with_name("gil_counter.c"))
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", source, "-o", str(library), "-ldl"], check=True)
        environment = {"LD_PRELOAD": str(library), "CALLOUT_GIL_COUNTER": str(library)}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **environment})


def gil_taken() -> int:
    """Returns how often the GIL was taken since the start, or 0 without the library."""
    library = os.environ.get("CALLOUT_GIL_COUNTER")
    if library is None:
        return 0
    count = ctypes.PyDLL(library).gil_taken  # PyDLL does not release the GIL
    count.restype = ctypes.c_long
    return int(count())


def log() -> list[str]:
    """Returns a line for each call of the driver in this process, with the bytes of copies."""
    control_of = ctypes.CDLL("libcuda.so.1").software_gpu_control
    control_of.restype = ctypes.POINTER(ctypes.c_void_p)
    text = ctypes.CFUNCTYPE(ctypes.c_char_p)(control_of()[3])()
    return text.decode().splitlines()


def calls_of(program: Callable[..., Any], *args: Any) -> Counter[str]:
    """Counts calls of the driver in ROUNDS executions, and the bytes of their copies across the bus under "bytes"."""
    for _ in range(2):
        jax.block_until_ready(program(*args))
        callout.barrier_wait()
        jax.effects_barrier()
    before, gil = len(log()), gil_taken()
    for _ in range(ROUNDS):
        jax.block_until_ready(program(*args))
        callout.barrier_wait()
        jax.effects_barrier()
    counts: Counter[str] = Counter(gil=gil_taken() - gil)
    for line in log()[before:]:
        name, _, rest = line.partition("(")
        counts[name] += 1
        if ACROSS.match(name):
            counts["bytes"] += int(rest.split(",")[0].rstrip(")"))
    return counts


def row(title: str, with_callback: Counter[str], without: Counter[str], gil: str) -> list[str]:
    def mean(matches: Callable[[str], Any]) -> str:
        difference = sum(
            with_callback[name] - without[name]
            for name in with_callback | without
            if name[:2] == "cu" and matches(name)
        )
        return f"{difference / ROUNDS:.3g}"

    megabytes = (with_callback["bytes"] - without["bytes"]) / ROUNDS / 2**20
    return [
        title,
        mean(QUEUED.match),
        mean(lambda name: name.startswith("cuMemcpy")),
        f"{megabytes:.3g}" if megabytes >= 0.1 else "-",
        mean(WAITS.search),
        mean(PINNED.search),
        gil,
    ]


def calls(shape: tuple[int, ...]) -> dict[str, Callable[..., Any]]:
    def through(pure_callback: Any) -> Callable[..., Any]:
        return lambda x: pure_callback(lambda v: np.asarray(v), jax.ShapeDtypeStruct(x.shape, x.dtype), x * 2) + 1

    return {
        "plain": lambda x: x * 2 + 1,
        "callout.pure_callback": through(callout.pure_callback),
        "jax.pure_callback": through(jax.pure_callback),
    }


def taps(leaves: int) -> dict[str, Callable[..., Any]]:
    sink = callout.sinks.Null()

    def by_callout(*values: Any) -> Any:
        callout.tap(sink, [v * 2 for v in values])
        return values[0] * 2 + 1

    def by_jax(*values: Any) -> Any:
        jax.debug.callback(lambda *arrays: None, *[v * 2 for v in values])
        return values[0] * 2 + 1

    # The programs without taps compute the tapped values, too. Returning an array takes the GIL, so the GIL's count is
    # compared with the program of one result.
    return {
        "plain": lambda *values: ([v * 2 for v in values], values[0] * 2 + 1),
        "one result": lambda *values: values[0] * 2 + 1,
        "callout.tap": by_callout,
        "jax.debug.callback": by_jax,
    }


def compare(programs: dict[str, Callable[..., Any]], args: tuple[Any, ...], what: str) -> list[list[str]]:
    counted = {name: calls_of(jax.jit(program), *args) for name, program in programs.items()}
    plain = counted.pop("plain")
    alone = counted.pop("one result", plain)["gil"]
    # A long wait takes the GIL repeatedly, so only small operands are counted.
    is_counted = "CALLOUT_GIL_COUNTER" in os.environ and max(x.nbytes for x in args) <= 1 << 20
    return [
        row(f"`{name}`, {what}", found, plain, f"{(found['gil'] - alone) / ROUNDS:.3g}" if is_counted else "-")
        for name, found in counted.items()
    ]


class Recorded:
    """Functions that queue two copies on the device, and count their runs."""

    def __init__(self) -> None:
        self.ran = 0
        self._copy = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2

    def queue(self, to: Any, source: Any, stream: int) -> None:
        """Queues copies of 1 KB between objects with the CUDA array interface."""
        self.ran += 1
        out, x = (ctypes.c_uint64(array.__cuda_array_interface__["data"][0]) for array in (to, source))
        for _ in range(2):
            self._copy(out, x, ctypes.c_size_t(1024), ctypes.c_void_p(stream))

    def programs(self) -> dict[str, Callable[..., Any]]:
        shape = jax.ShapeDtypeStruct((256,), jnp.float32)

        def of_numba(x: Any, out: Any, stream: Any) -> None:
            self.queue(out, x, int(stream.handle))

        def of_buffers(ctx: Any, out: Any, x: Any) -> None:
            self.queue(out, x, ctx.stream)

        scale = callout.cuda.load_inline(SCALE).scale.options(launch_dims=256, constants={"n": 256})
        return {
            "callout, graph=True": callout.numba_cuda.numba_cuda_callable(of_numba, shape, graph=True),
            "callout.buffer_callback": callout.buffer_callback.buffer_callback(of_buffers, shape),
            "jax.buffer_callback": buffer_callback(of_buffers, shape),
            "callout.buffer_callback, compatible": callout.buffer_callback.buffer_callback(
                of_buffers, shape, command_buffer_compatible=True
            ),
            "jax.buffer_callback, compatible": buffer_callback(of_buffers, shape, command_buffer_compatible=True),
            "callout.cuda kernel": scale,
        }


SCALE = """
extern "C" __global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""
# The smallest number of operations for which XLA makes a graph; all other options are JAX's defaults.
GRAPHS = {"xla_gpu_graph_min_graph_size": 1}


def recorded_rows(name: str, function: Callable[..., Any], recorded: Recorded, sets: int) -> list[str]:
    """Counts the calls of one execution, after `sets` sets of buffers have come in turn often enough to be recorded."""
    program = jax.jit(lambda x: function(x * 2) + 1, compiler_options=GRAPHS)
    arguments = [jnp.full(256, float(i)) for i in range(sets)]
    results: list[Any] = [None] * sets  # kept, so that results have different memory, too

    def turn() -> None:
        for i, x in enumerate(arguments):
            results[i] = None
            results[i] = jax.block_until_ready(program(x))

    for _ in range(4):
        turn()
    ran, before = recorded.ran, len(log())
    for _ in range(ROUNDS):
        turn()
    names = [line.partition("(")[0] for line in log()[before:]]
    executions = ROUNDS * sets
    columns = [QUEUED, RECORDED, MADE, UPDATED, WAITS]
    counted = [(recorded.ran - ran) / executions]
    counted += [sum(map(bool, map(column.search, names))) / executions for column in columns]
    buffers = "known buffers" if sets == 1 else f"{sets} sets of buffers in turn"
    return [f"`{name}`, {buffers}", *(f"{count:.3g}" for count in counted)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the table there, too")
    parsed = parser.parse_args()
    preload_counter()
    if jax.devices()[0].platform != "gpu":
        sys.exit("counts.py: needs JAX's CUDA plugin on the software GPU: software_gpu/run python " + sys.argv[0])
    body = []
    for title, shape in SIZES.items():
        body += compare(calls(shape), (jnp.ones(shape, jnp.float32),), title)
    for title, shape in SIZES.items():
        body += compare(taps(1), (jnp.ones(shape, jnp.float32),), title)
    many = tuple(jnp.full((i % 10 + 1,), float(i)) for i in range(100))
    body += compare(taps(100), many, "100 leaves")
    head = ["for one execution", "queued", "copies", "MB", "waits", "pinned", "gil"]
    recorded = Recorded()
    recorded_body = [
        recorded_rows(name, function, recorded, sets)
        for sets in (1, SETS)
        for name, function in recorded.programs().items()
    ]
    recorded_head = ["for one execution, recorded", "called", "queued", "recorded", "made", "updated", "waits"]
    tables = [(head, body), (recorded_head, recorded_body)]
    for table in tables:
        print(as_markdown(*table))
    if parsed.json is not None:
        environment = {"JAX": jax.__version__, "device": "software GPU, CUDA 13"}
        parsed.json.write_text(json.dumps({"environment": environment, "tables": as_json(tables)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
