# SPDX-License-Identifier: Apache-2.0
"""Compiles a C++ library with callbacks, registers them by name, and calls and taps them from a jitted program.

Usage: python examples/native_callback/main.py [LIBRARY], which CMakeLists.txt beside this file builds.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np

BINS = 20


def build(folder: Path) -> Path:
    library = folder / "libhistogram.so"
    source = Path(__file__).parent / "histogram.cc"
    flags = ["-shared", "-fPIC", "-std=c++20", "-O2", "-I", callout.include_dir()]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, str(source), "-o", str(library)], check=True)
    return library


@jax.jit
def random_walk(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Moves ten thousand walkers, with a histogram after each of 100 steps. The program has the callbacks' names only."""
    results = (jax.ShapeDtypeStruct((BINS,), jnp.int32), jax.ShapeDtypeStruct((2,), jnp.float32))

    def step(x, key):
        x = x + jax.random.normal(key, x.shape)
        counts, span = callout.pure_callback("histogram", results, x)
        return x, (callout.tap("count", counts), span)

    return jax.lax.scan(step, jnp.zeros(10_000), jax.random.split(key, 100))[1]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else build(Path(folder))
        callout.register("histogram", f"{library}:histogram")
        callout.register("count", f"{library}:count")
        counts, span = map(np.asarray, random_walk(jax.random.key(0)))
        callout.barrier_wait()
        seen = ctypes.CDLL(str(library)).histogram_values_seen()
    low, high = span[-1]
    for i, count in enumerate(counts[-1]):
        print(f"{low + (high - low) * (i + 0.5) / BINS:>7.1f} {'#' * (count // 25)}")
    print(f"{seen:,} values went through the tap")
    assert seen == counts.sum() == 1_000_000


if __name__ == "__main__":
    main()
