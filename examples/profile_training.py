# SPDX-License-Identifier: Apache-2.0
"""Profiles a training loop with slow callbacks, makes the changes that the report suggests, and profiles it again.

Usage: python examples/profile_training.py [folder for the timelines, default: a temporary one]
"""

import sys
import tempfile
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np

STEPS = 200
TARGET = jnp.linspace(-1, 1, 4096)


def schedule(step):
    """Looks up a learning rate on the host, slowly."""
    knots = np.linspace(0, STEPS, 20_000)
    return np.float32(np.interp(step, knots, 0.5 * np.cos(knots / STEPS) ** 2))


def train(rate, log, every):
    """Returns a program of STEPS steps with the learning rate `rate(step)`, which taps the weights' error to `log`."""

    @jax.jit
    def program(w):
        def step(i, w):
            error = w - TARGET
            callout.tap(log, {"step": i, "error": error}, name="train", every=every)
            return w - rate(i.astype(jnp.float32)) * error

        return jax.lax.fori_loop(0, STEPS, step, w)

    return program


def profiled(program, path):
    program(jnp.zeros(4096))  # compiles
    callout.barrier_wait()
    with callout.profile(path) as profile:
        program(jnp.zeros(4096))
    print(profile.report(), "\n")
    return profile


def main(folder):
    errors = []
    slow = train(
        lambda i: callout.pure_callback(schedule, jax.ShapeDtypeStruct((), "float32"), i),
        lambda record: errors.append(np.square(record["error"]).sum()),
        every=1,
    )
    before = profiled(slow, folder / "before.json.gz")
    rules = {finding.rule for finding in before.report().findings}
    assert "slow_function" in rules, rules
    # The program now computes the rate, and a native sink takes every tenth record.
    log = callout.sinks.JsonLines(folder / "errors.jsonl")
    after = profiled(train(lambda i: 0.5 * jnp.cos(i / STEPS) ** 2, log, every=10), folder / "after.json.gz")
    held = [sum(row["device_wait"]["total"] for row in each.summary().values()) for each in (before, after)]
    print(f"The program was held {held[0] * 1e3:.2f} ms before, {held[1] * 1e3:.2f} ms after.")
    print(f"Timelines: {folder}/before.json.gz and after.json.gz, for https://ui.perfetto.dev")
    assert held[1] < held[0]
    assert len(errors) == 2 * STEPS


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
