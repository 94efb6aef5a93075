# SPDX-License-Identifier: Apache-2.0
"""What leaves the running program: a progress line, a file of records, a scikit-learn score, and C++."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from .model import CLASSES

BINS = 10


class Progress:
    """A tap's target: redraws one line on a terminal, writes a line now and then elsewhere."""

    def __init__(self, steps: int):
        self.steps, self.started, self.lines = steps, time.monotonic(), 0
        self.live = sys.stdout.isatty()
        self.interval = 0.05 if self.live else 0.5  # seconds

    def __call__(self, value: dict[str, np.ndarray]) -> None:
        self.lines += 1
        self.show(int(value["step"]), float(value["loss"]), float(value["accuracy"]), float(value["test"]))

    def show(self, step: int, loss: float, accuracy: float, test: float) -> None:
        rate = step / (time.monotonic() - self.started)
        left = (self.steps - step) / rate
        cells = shutil.get_terminal_size().columns // 6 if self.live else 0
        bar = ("━" * (cells * step // self.steps)).ljust(cells, "─") + "  " if cells else ""
        text = (
            f"{bar}step {step:>{len(str(self.steps))}}/{self.steps}  loss {loss:.4f}  train {accuracy:6.1%}"
            f"  test {test:6.1%}  {rate:6,.0f} steps/s  {left:4.1f} s left"
        )
        print(f"\r{text}\033[K" if self.live else text, end="" if self.live else "\n", flush=True)

    def finish(self) -> None:
        if self.live:
            print()


def score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Macro F1, log loss and one-against-rest ROC AUC, as scikit-learn defines them."""
    probabilities = probabilities.astype(np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return np.array(
        [
            f1_score(labels, probabilities.argmax(axis=1), average="macro"),
            log_loss(labels, probabilities, labels=range(CLASSES)),
            roc_auc_score(labels, probabilities, multi_class="ovr"),
        ],
        np.float32,
    )


# scikit-learn uses no JAX: the program may be dispatched asynchronously.
_score = callout.options(score, numpy_only=True, name="scikit-learn score")


def sklearn_score(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """From inside the program: [F1, log loss, ROC AUC]."""
    return callout.pure_callback(_score, jax.ShapeDtypeStruct((3,), jnp.float32), jax.nn.softmax(logits), labels)


def build_native(folder: Path) -> None:
    """Compiles evaluate.cc, as a user of callout would, and gives its callback a name."""
    source, library = Path(__file__).parent / "evaluate.cc", folder / "libevaluate.so"
    flags = ["-shared", "-fPIC", "-std=c++20", "-O2", "-I", callout.include_dir()]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, str(source), "-o", str(library)], check=True)
    callout.register("digits.evaluate", f"{library}:evaluate")


def native_evaluate(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """From inside the program: (confusion matrix, calibration histogram); see evaluate.cc."""
    results = (
        jax.ShapeDtypeStruct((CLASSES, CLASSES), jnp.int32),
        jax.ShapeDtypeStruct((BINS, 3), jnp.float32),
    )
    return callout.pure_callback("digits.evaluate", results, logits, labels)
