# SPDX-License-Identifier: Apache-2.0
"""What callbacks ask of CUDA's driver, beside JAX's own callbacks on the same device. Counted on the software GPU, where no
time means anything: software_gpu/run python benchmarks/python/gpu/counts.py [--json FILE]

Counts are those of one execution beyond the same program without a callback: the mean of several, after two that warm up.
`queued` is what is put on streams: copies, launches, writes, host functions. `copies` are all of these copies, MB what of
them crosses the bus, `waits` the driver's calls that wait (Synchronize), `pinned` those that pin memory or free it. Events
and questions about them are not counted: how many there are depends on time.
"""

import argparse
import ctypes
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent))
from tables import as_json, as_markdown

ROUNDS = 4
SIZES = {"f32[]": (), "1 MB": (1 << 18,), "64 MB": (1 << 24,)}
ACROSS = re.compile(r"cuMemcpy(?!DtoD)")
QUEUED = re.compile(r"cuMemcpy|cuMemset|cuLaunch|cuGraphLaunch|cuStream(Write|Wait)Value")
WAITS = re.compile(r"Synchronize")
PINNED = re.compile(r"cuMemHostAlloc|cuMemFreeHost|cuMemHostRegister|cuMemHostUnregister")


def log() -> list[str]:
    """A line a call of the driver's in this process, with the bytes of copies."""
    control_of = ctypes.CDLL("libcuda.so.1").software_gpu_control
    control_of.restype = ctypes.POINTER(ctypes.c_void_p)
    text = ctypes.CFUNCTYPE(ctypes.c_char_p)(control_of()[3])()
    return text.decode().splitlines()


def calls_of(program: Callable[..., Any], *args: Any) -> Counter[str]:
    """Calls of the driver in ROUNDS executions, and the bytes of their copies across the bus under "bytes"."""
    for _ in range(2):
        jax.block_until_ready(program(*args))
        callout.barrier_wait()
        jax.effects_barrier()
    before = len(log())
    for _ in range(ROUNDS):
        jax.block_until_ready(program(*args))
        callout.barrier_wait()
        jax.effects_barrier()
    counts: Counter[str] = Counter()
    for line in log()[before:]:
        name, _, rest = line.partition("(")
        counts[name] += 1
        if ACROSS.match(name):
            counts["bytes"] += int(rest.split(",")[0].rstrip(")"))
    return counts


def row(title: str, with_callback: Counter[str], without: Counter[str]) -> list[str]:
    def mean(matches: Callable[[str], Any]) -> str:
        difference = sum(
            with_callback[name] - without[name] for name in with_callback | without if name != "bytes" and matches(name)
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

    # What is tapped is computed there, too.
    return {
        "plain": lambda *values: ([v * 2 for v in values], values[0] * 2 + 1),
        "callout.tap": by_callout,
        "jax.debug.callback": by_jax,
    }


def compare(programs: dict[str, Callable[..., Any]], args: tuple[Any, ...], what: str) -> list[list[str]]:
    counted = {name: calls_of(jax.jit(program), *args) for name, program in programs.items()}
    return [row(f"`{name}`, {what}", counted[name], counted["plain"]) for name in list(programs)[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the table there, too")
    parsed = parser.parse_args()
    if jax.devices()[0].platform != "gpu":
        sys.exit("counts.py: needs JAX's CUDA plugin on the software GPU: software_gpu/run python " + sys.argv[0])
    body = []
    for title, shape in SIZES.items():
        body += compare(calls(shape), (jnp.ones(shape, jnp.float32),), title)
    for title, shape in SIZES.items():
        body += compare(taps(1), (jnp.ones(shape, jnp.float32),), title)
    many = tuple(jnp.full((i % 10 + 1,), float(i)) for i in range(100))
    body += compare(taps(100), many, "100 leaves")
    head = ["for one execution", "queued", "copies", "MB", "waits", "pinned"]
    print(as_markdown(head, body))
    if parsed.json is not None:
        environment = {"JAX": jax.__version__, "device": "software GPU, CUDA 13"}
        parsed.json.write_text(
            json.dumps({"environment": environment, "tables": as_json([(head, body)])}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
