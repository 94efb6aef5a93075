# SPDX-License-Identifier: Apache-2.0
"""Trains, and survives SIGTERM, which clusters send before they kill: the compiled loop stops, the state is saved, and
the next run continues. The results equal those of an uninterrupted run.

Usage: python examples/preemptible_training.py [folder, default build/demo/preemptible] [steps, default 2000]
A further run with the same folder and more steps continues from the saved state.
"""

import hashlib
import signal
import sys
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np

State = dict[str, Any]


def first() -> State:
    return {"step": jnp.int32(0), "w": jnp.linspace(-1, 1, 64), "velocity": jnp.zeros(64)}


def announce(step: np.ndarray) -> None:
    print(f"training, behind step {step}", flush=True)


@jax.jit
def train(stop: callout.StopFlag, state: State, steps: jax.Array) -> State:
    """Runs gradient descent with momentum on noisy data. The noise of a step depends on its number alone."""

    def step(i: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        w, velocity = carry
        noise = jax.random.normal(jax.random.fold_in(jax.random.key(0), i), w.shape)
        velocity = 0.9 * velocity - 0.02 * (w - 0.5 + 0.1 * noise)
        callout.tap(announce, i, every=1 << 20)
        return w + velocity, velocity

    (w, velocity), done = callout.fori_loop(state["step"], steps, step, (state["w"], state["velocity"]), stop=stop)
    return {"step": state["step"] + done, "w": w, "velocity": velocity}


def save(path: Path, state: State) -> None:
    """Writes the file atomically: if the process is killed meanwhile, the previous file stays."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        np.savez(file, **{name: np.asarray(array) for name, array in state.items()})
    unfinished.replace(path)


def load(path: Path) -> State:
    if not path.exists():
        return first()
    with np.load(path) as arrays:
        return {name: jnp.asarray(array) for name, array in arrays.items()}


def main() -> None:
    build = Path(__file__).resolve().parent.parent / "build/demo"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else build / "preemptible"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    folder.mkdir(parents=True, exist_ok=True)
    # Inside the block, the first signal stops the loop. A second one has its usual effect.
    with callout.StopFlag(signals=[signal.SIGTERM, signal.SIGINT]) as stop:
        state = load(folder / "state.npz")
        begin = int(state["step"])
        state = jax.block_until_ready(train(stop, state, jnp.int32(steps)))
        save(folder / "state.npz", state)
        callout.barrier_wait()  # prints the last lines of `announce` before the outcome
        print(f"{'stopped' if stop.is_set() else 'done'}: from step {begin} to {int(state['step'])}")
    print(f"w is {hashlib.sha256(np.asarray(state['w']).tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()
