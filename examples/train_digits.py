# SPDX-License-Identifier: Apache-2.0
"""Trains a small network in one compiled program, and gets out of it everything that one wants to see.

A progress bar; files for JSON, Arrow, pandas and TensorBoard, a histogram and a watch for NaN, all by taps that C++ takes; a
scikit-learn score and a C++ function by calls; where a NaN begins, and a check. Prints what was delivered, where the time
went and what a callback costs beside JAX's own, draws two pictures, and fails if anything is missing or wrong.

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
    """train.jsonl has everything, steps.arrows and epochs.csv a part; TensorBoard shows both."""
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
    """Runs the program. Returns what it learnt, its history, the time that it took, and where that went."""
    program = training.make_program(data, opened)
    state, key = model.start(seed=0), jax.random.key(0)
    print(f"compiling {training.EPOCHS} epochs into one program ...", flush=True)
    compiled = program.lower(state, key).compile()
    with callout.profile() as profile, callout.reraise():
        start = time.monotonic()
        state, history = jax.block_until_ready(compiled(state, key))
        callout.barrier_wait()  # every tap has arrived
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
    some = (seconds / 2, seconds / 2 + 0.05)
    profile.picture(folder / "timeline.png", title="Callbacks of some steps in the middle", between=some)
    profile.save(folder / "timeline.json.gz")
    print(f"{summary}  {stream.num_rows} rows and {stream.num_columns} columns in steps.arrows.")
    print(
        f"pictures: {folder / 'digits.png'}, {folder / 'timeline.png'}; tensorboard --logdir {folder / 'tensorboard'}"
    )
    if wrong:
        sys.exit("WRONG:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
