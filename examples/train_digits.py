# SPDX-License-Identifier: Apache-2.0
"""Trains a small network in one compiled program, and observes it by every kind of callback.

C++ takes the taps: a progress bar; files for JSON, Arrow, pandas and TensorBoard; a histogram; and a watch for NaN.
Calls run a scikit-learn score and a C++ function. `locate_nans` finds where a NaN begins, and `error_if` checks for its
cause. The script prints deliveries, where the time went and the cost of a callback beside JAX's own, draws a picture,
and fails if anything is missing or wrong.

Usage: python examples/train_digits.py [output folder, default build/demo]
"""

import json
import shutil
import sys
import time
from pathlib import Path

import callout
import jax
import matplotlib as mpl
import numpy as np
from callout import sinks
from digits import callbacks, export, faults, model, plot, report, training
from pyarrow import ipc


def make_sinks(folder: Path) -> training.Sinks:
    """Opens the sinks: train.jsonl gets everything, steps.arrows and epochs.csv a part each, and TensorBoard both parts."""
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    board = sinks.TensorBoard(folder / "tensorboard", name="tensorboard")
    records = sinks.JsonLines(folder / "train.jsonl", name="train.jsonl")
    table = sinks.Csv(folder / "epochs.csv", name="epochs.csv")
    stream = sinks.Arrow(folder / "steps.arrows", name="steps.arrows")
    return training.Sinks(
        steps=sinks.Tee(records, stream, board, name="each 10th step"),
        epochs=sinks.Tee(records, table, board, name="each epoch"),
        norms=sinks.Histogram(name="norms"),
    )


def train(data: model.Data, opened: training.Sinks) -> tuple[model.Params, training.History, float, callout.profile]:
    """Runs the program. Returns the parameters, the history, the time, and a profile of it."""
    program = training.make_program(data, opened)
    state, key = model.start(seed=0), jax.random.key(0)
    print(f"compiling {training.EPOCHS} epochs into one program ...", flush=True)
    compiled = program.lower(state, key).compile()
    with callout.profile() as profile, callout.reraise():
        start = time.monotonic()
        state, history = jax.block_until_ready(compiled(state, key))
        callout.barrier_wait()  # waits until every tap has been delivered
        seconds = time.monotonic() - start
    return state.params, training.History(*map(np.asarray, history)), seconds, profile


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "build/demo")
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("agg")
    callbacks.build_native(folder)
    data = model.load()
    opened = make_sinks(folder)
    params, history, seconds, profile = train(data, opened)
    export.write(params, data, folder)
    steps = training.EPOCHS * training.steps_per_epoch(data)
    records = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    wrong = report.problems(history, records, steps, training.RECORD_EVERY)
    said = faults.reports(params, data.test_x)
    wrong += faults.problems(said)
    stream = ipc.open_stream(folder / "steps.arrows").read_all()
    if stream["step"].to_pylist() != [
        record["step"] for record in records if record["name"] == stream["name"][0].as_py()
    ]:
        wrong.append(f"steps.arrows has {stream.num_rows} steps, and not those of train.jsonl")
    low, middle, high = opened.norms["grad_norm"].quantile([0.05, 0.5, 0.95])
    print(f"\n{report.deliveries()}\n\n{profile.report()}\n\n{report.costs()}\n")
    print(f"gradient norms of all {steps:,} steps: median {middle:.3f}, nine in ten from {low:.3f} to {high:.3f}")
    print("a blank image, and what tells of it:", *said, sep="\n  ")
    summary = (
        f"{steps:,} steps in {seconds:.1f} s, one jitted scan.  {len(records)} records in train.jsonl.  "
        f"Test accuracy {history.accuracy[-1]:.1%}."
    )
    plot.draw(records, history, summary, folder / "digits.png")
    profile.save(folder / "timeline.json.gz")
    print(f"{summary}  {stream.num_rows} rows and {stream.num_columns} columns in steps.arrows.")
    print(
        f"picture: {folder / 'digits.png'}; timeline for https://ui.perfetto.dev: {folder / 'timeline.json.gz'}; "
        f"tensorboard --logdir {folder / 'tensorboard'}"
    )
    if wrong:
        sys.exit("WRONG:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
