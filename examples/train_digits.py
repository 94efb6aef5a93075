# SPDX-License-Identifier: Apache-2.0
"""Trains a small network in one compiled program, and gets out of it everything that one wants to see.

A progress line and a file of records by taps; a scikit-learn score and a C++ function by calls. Prints what was delivered
and what a callback costs beside JAX's own, draws a picture, and fails if anything is missing or wrong.

Usage: python examples/train_digits.py [output folder, default build/demo]
"""

import json
import sys
import time
from pathlib import Path

import callout
import jax
import matplotlib as mpl
import numpy as np
from digits import callbacks, export, model, plot, report, training


def train(data: model.Data, folder: Path) -> tuple[model.Params, training.History, int, float]:
    """Runs the program; the records go to train.jsonl. Returns what it learnt and its history, steps and time."""
    steps = training.EPOCHS * training.steps_per_epoch(data)
    progress = callbacks.Progress(steps)
    program = training.make_program(data, progress, callout.sinks.JsonLines(folder / "train.jsonl", name="train.jsonl"))
    state, key = model.start(seed=0), jax.random.key(0)
    print(f"compiling {steps:,} steps into one program ...", flush=True)
    compiled = program.lower(state, key).compile()
    progress.started = start = time.monotonic()
    with callout.reraise():
        state, accuracy, history = jax.block_until_ready(compiled(state, key))
        callout.barrier_wait()  # every tap has arrived
    seconds = time.monotonic() - start
    records = (folder / "train.jsonl").read_text().splitlines()
    last_loss = [r["loss"] for r in map(json.loads, records) if r["name"] == "train"][-1]
    progress.show(int(state.step), last_loss, float(accuracy), float(history.accuracy[-1]))
    progress.finish()
    return state.params, training.History(*map(np.asarray, history)), steps, seconds


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "build/demo")
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("agg")
    callbacks.build_native(folder)
    data = model.load()
    params, history, steps, seconds = train(data, folder)
    export.write(params, data, folder)
    records = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    wrong = report.problems(history, records, steps, training.RECORD_EVERY)
    print(f"\n{report.deliveries()}\n\n{report.costs()}\n")
    summary = (
        f"{steps:,} steps in {seconds:.1f} s, one jitted scan.  {len(records)} records in train.jsonl.  "
        f"Test accuracy {history.accuracy[-1]:.1%}."
    )
    plot.draw(records, history, summary, folder / "digits.png")
    print(summary)
    print(f"picture: {folder / 'digits.png'}")
    if wrong:
        sys.exit("WRONG:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
