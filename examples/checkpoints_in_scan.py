# SPDX-License-Identifier: Apache-2.0
"""Checkpoints by orbax from inside a scan: a tap hands the state over every so many steps, and the program goes on while
orbax writes it. A run that is killed goes on behind its last checkpoint.

Usage: python examples/checkpoints_in_scan.py [folder, default build/demo/checkpoints] [steps, default 100]
Needs orbax-checkpoint (pip install). Again with the same folder and more steps, it goes on with what is there.
"""

import sys
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

EVERY = 25
State = dict[str, Any]


def first() -> State:
    return {"w": jnp.linspace(-1, 1, 64), "velocity": jnp.zeros(64)}


def trainer(manager: ocp.CheckpointManager) -> Any:
    """A compiled program: gradient descent with momentum, for the steps whose numbers it gets."""

    def checkpoint(step: jax.Array, state: State) -> State:
        return callout.tap(save, {"step": step, "state": state})["state"]

    def save(record: State) -> None:
        # Runs on a thread of Callout's. orbax copies what it gets before save() returns, and writes it on one of its own.
        manager.save(int(record["step"]), args=ocp.args.StandardSave(record["state"]))

    @jax.jit
    def train(state: State, steps: jax.Array) -> State:
        def step(state: State, i: jax.Array) -> tuple[State, None]:
            velocity = 0.9 * state["velocity"] - 0.02 * (state["w"] - 0.5)
            state = {"w": state["w"] + velocity, "velocity": velocity}
            return jax.lax.cond((i + 1) % EVERY == 0, lambda: checkpoint(i + 1, state), lambda: state), None

        return jax.lax.scan(step, state, steps)[0]

    return train


def run(folder: Path, steps: int) -> tuple[int, State]:
    """Trains until so many steps are done. Returns where it began, and the state at the end."""
    with ocp.CheckpointManager(folder.resolve(), options=ocp.CheckpointManagerOptions(max_to_keep=3)) as manager:
        begin, state = manager.latest_step() or 0, first()
        if begin:
            state = manager.restore(begin, args=ocp.args.StandardRestore(jax.tree.map(np.asarray, state)))
        state = trainer(manager)(state, jnp.arange(begin, steps))
        callout.barrier_wait()  # the taps' functions have returned; errors of orbax are raised here
        manager.wait_until_finished()  # orbax has written all
    return begin, state


def main() -> None:
    build = Path(__file__).resolve().parent.parent / "build/demo"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else build / "checkpoints"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    begin, state = run(folder, steps)
    print(f"from step {begin} to {steps}: |w - 0.5| = {float(jnp.abs(state['w'] - 0.5).max()):.2e}")
    with ocp.CheckpointManager(folder.resolve()) as manager:
        print(f"checkpoints of the steps {sorted(manager.all_steps())} in {folder}")


if __name__ == "__main__":
    main()
