# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints by orbax from inside a scan: a tap sends the state at intervals, and the program goes on while
orbax writes the checkpoint. A run that was killed continues behind its last checkpoint.

Usage: python examples/checkpoints_in_scan.py [folder, default build/demo/checkpoints] [steps, default 100]
Needs orbax-checkpoint (pip install). A further run with the same folder and more steps continues from the last
checkpoint.
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
    """Returns a compiled program: gradient descent with momentum, for the given step numbers."""

    def checkpoint(step: jax.Array, state: State) -> State:
        return callout.tap(save, {"step": step, "state": state})["state"]

    def save(record: State) -> None:
        # This runs on a delivery thread. orbax copies its arguments before save() returns, and writes them on its own
        # thread.
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
    """Trains until `steps` steps are done. Returns the first step of this run, and the last state."""
    with ocp.CheckpointManager(folder.resolve(), options=ocp.CheckpointManagerOptions(max_to_keep=3)) as manager:
        begin, state = manager.latest_step() or 0, first()
        if begin:
            state = manager.restore(begin, args=ocp.args.StandardRestore(jax.tree.map(np.asarray, state)))
        state = trainer(manager)(state, jnp.arange(begin, steps))
        callout.barrier_wait()  # waits for the taps' functions, and raises errors of orbax
        manager.wait_until_finished()  # waits until orbax has written everything
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
