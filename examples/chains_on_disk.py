# SPDX-License-Identifier: Apache-2.0
"""Writes the draws of four Markov chains to disk from inside the scan that makes them: by `callout.sinks.Zarr`, and by
`jax.experimental.io_callback` with h5py, or with a memory-mapped NumPy array if h5py is not installed. Both must hold
equal draws.

Usage: python examples/chains_on_disk.py [output folder, default build/demo] [draws of each chain, default 2000]
           [walk, blackjax or numpyro, default walk]
The chains are a random walk, which needs no other package, or Hamiltonian Monte Carlo by blackjax or numpyro (pip
install). io_callback writes at most the first 20,000 draws, because it takes about a millisecond for each.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np
import zarr
from jax.experimental import io_callback

try:
    import h5py
except ImportError:
    h5py = None

CHAINS, SIZE, MOST_BY_CALLBACK = 4, 10, 20_000
Begin = Callable[[jax.Array], Any]  # (positions) -> states
Step = Callable[[jax.Array, Any], Any]  # (key, state of a chain) -> next state
Keep = Callable[[jax.Array, jax.Array], object]  # (number of a draw, positions of the chains)
Chains = tuple[Begin, Step, Callable[[Any], jax.Array]]  # the last function returns a state's position


def walk() -> Chains:
    """Returns random-walk Metropolis chains for a normal distribution."""

    def step(key: jax.Array, x: jax.Array) -> jax.Array:
        proposal, accept = jax.random.split(key)
        y = x + 0.5 * jax.random.normal(proposal, x.shape)
        log_ratio = (jnp.vdot(x, x) - jnp.vdot(y, y)) / 2
        return jnp.where(jnp.log(jax.random.uniform(accept)) < log_ratio, y, x)

    return lambda x: x, step, lambda x: x


def blackjax() -> Chains:
    """Returns blackjax's chains for a normal distribution."""
    import blackjax

    kernel = blackjax.hmc(lambda x: -jnp.vdot(x, x) / 2, 0.5, jnp.ones(SIZE), 5)
    return jax.vmap(kernel.init), lambda key, x: kernel.step(key, x)[0], lambda x: x.position


def numpyro() -> Chains:
    """Returns numpyro's chains for a normal distribution. Their states contain the keys."""
    from numpyro.infer import HMC

    kernel = HMC(potential_fn=lambda x: jnp.vdot(x, x) / 2, step_size=0.5, num_steps=5, adapt_step_size=False)

    def begin(x: jax.Array) -> Any:
        states = [kernel.init(jax.random.PRNGKey(0), 0, position, (), {}) for position in x]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    def step(key: jax.Array, x: Any) -> Any:
        return kernel.sample(x._replace(rng_key=jax.random.key_data(key)), (), {})

    return begin, step, lambda x: x.z


def sampler(chains: Callable[[], Chains], draws: range, keep: Keep, positions: Any = None) -> tuple[Any, Any]:
    """Returns one compiled program of all chains, and its first states. `keep` gets each draw. With the `positions` of
    the previous draw, the program continues as if it had not stopped, because a draw's keys depend on its number alone.
    """
    first, step, where = chains()
    begin = first(jnp.zeros((CHAINS, SIZE)) if positions is None else jnp.asarray(positions))

    def draw(x: Any, i: jax.Array) -> tuple[Any, None]:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(0), i), CHAINS)
        x = jax.vmap(step)(keys, x)
        keep(i, where(x))
        return x, None

    numbers = jnp.arange(draws.start, draws.stop)
    return jax.jit(lambda x: jax.lax.scan(draw, x, numbers)[0]).lower(begin).compile(), begin


def microseconds(chains: Callable[[], Chains], draws: int, keep: Keep, wait: Callable[[], None]) -> float:
    """Returns the time of a draw, from one run until everything is written."""
    program, begin = sampler(chains, range(draws), keep)
    start = time.monotonic()
    jax.block_until_ready(program(begin))
    wait()
    return (time.monotonic() - start) * 1e6 / draws


def by_callback(chains: Callable[[], Chains], draws: int, folder: Path) -> tuple[float, np.ndarray, str]:
    """Writes the draws to an HDF5 or NumPy file. Returns the time of a draw, the file's contents, and the library."""
    shape = (draws, CHAINS, SIZE)
    if h5py is None:
        name, file = "NumPy's memmap", None
        rows: Any = np.lib.format.open_memmap(folder / "draws.npy", mode="w+", dtype=np.float32, shape=shape)
    else:
        name, file = "h5py", h5py.File(folder / "draws.h5", "w")
        rows = file.create_dataset("x", shape, np.float32, chunks=(min(1000, draws), CHAINS, SIZE))

    def write(i: np.ndarray, x: np.ndarray) -> None:
        rows[int(i)] = x

    took = microseconds(chains, draws, lambda i, x: io_callback(write, None, i, x), jax.effects_barrier)
    written = np.array(rows[:])
    if file is not None:
        file.close()
    return took, written, name


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "build/demo")
    draws = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    chains = {"walk": walk, "blackjax": blackjax, "numpyro": numpyro}[sys.argv[3] if len(sys.argv) > 3 else "walk"]
    folder.mkdir(parents=True, exist_ok=True)
    sink = callout.sinks.Zarr(folder / "draws.zarr", replace=True)
    by_sink = microseconds(chains, draws, lambda _, x: callout.tap(sink, x, name="x"), callout.barrier_wait)
    sink.close()
    took, written, name = by_callback(chains, min(draws, MOST_BY_CALLBACK), folder)
    alone = microseconds(chains, draws, lambda *_: None, lambda: None)
    stored = zarr.open_array(folder / "draws.zarr/x", mode="r")
    if stored.shape != (draws, CHAINS, SIZE) or not np.array_equal(stored[: len(written)], written):
        sys.exit(f"WRONG: {stored.shape} draws in the store, which are not those in the file by {name}")
    print(f"{draws:,} draws of {CHAINS} chains by {chains.__name__}: the chains alone {alone:.1f} us a draw,")
    print(f"with callout.sinks.Zarr {by_sink:.1f}, with io_callback and {name} {took:.1f}")


if __name__ == "__main__":
    main()
