# SPDX-License-Identifier: Apache-2.0
"""Four Markov chains whose draws go to disk from inside the scan that makes them: by `callout.sinks.Zarr`, and by
`jax.experimental.io_callback` into a memory-mapped array of NumPy's. Both have to hold the same draws.

Usage: python examples/chains_on_disk.py [output folder, default build/demo] [draws of each chain, default 2000]
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
import zarr
from jax.experimental import io_callback

CHAINS, SIZE = 4, 10


def sampler(draws: int, keep: Callable[[jax.Array, jax.Array], object]) -> Callable[[jax.Array], jax.Array]:
    """Random-walk Metropolis for a normal distribution, all chains in one program. `keep` gets each draw."""

    def step(x: jax.Array, key: jax.Array) -> jax.Array:
        proposal, accept = jax.random.split(key)
        y = x + 0.5 * jax.random.normal(proposal, x.shape)
        log_ratio = (jnp.vdot(x, x) - jnp.vdot(y, y)) / 2
        return jnp.where(jnp.log(jax.random.uniform(accept)) < log_ratio, y, x)

    def draw(x: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(0), i), CHAINS)
        x = jax.vmap(step)(x, keys)
        keep(i, x)
        return x, None

    return jax.jit(lambda x: jax.lax.scan(draw, x, jnp.arange(draws))[0])


def seconds(program: Callable[[jax.Array], jax.Array], wait: Callable[[], None]) -> float:
    """Of one run, until all is written."""
    compiled = jax.jit(program).lower(jnp.zeros((CHAINS, SIZE))).compile()
    start = time.monotonic()
    jax.block_until_ready(compiled(jnp.zeros((CHAINS, SIZE))))
    wait()
    return time.monotonic() - start


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "build/demo")
    draws = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    folder.mkdir(parents=True, exist_ok=True)
    sink = callout.sinks.Zarr(folder / "draws.zarr", replace=True)
    by_sink = seconds(sampler(draws, lambda _, x: callout.tap(sink, x, name="x")), callout.barrier_wait)
    sink.close()

    shape = (draws, CHAINS, SIZE)
    mapped = np.lib.format.open_memmap(folder / "draws.npy", mode="w+", dtype=np.float32, shape=shape)

    def write(i: np.ndarray, x: np.ndarray) -> None:
        mapped[int(i)] = x

    by_callback = seconds(sampler(draws, lambda i, x: io_callback(write, None, i, x)), jax.effects_barrier)
    alone = seconds(sampler(draws, lambda *_: None), lambda: None)
    stored = zarr.open_array(folder / "draws.zarr/x", mode="r")
    if stored.shape != shape or not np.array_equal(stored[:], mapped):
        sys.exit(f"WRONG: {stored.shape} draws in the store, which are not those in the array of {shape}")
    print(f"{draws:,} draws of {CHAINS} chains: the chains alone {alone * 1e6 / draws:.1f} us a draw,")
    print(f"with callout.sinks.Zarr {by_sink * 1e6 / draws:.1f}, with io_callback {by_callback * 1e6 / draws:.1f}")


if __name__ == "__main__":
    main()
