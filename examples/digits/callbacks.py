# SPDX-License-Identifier: Apache-2.0
"""The calls of the training program: a scikit-learn score, and a C++ function."""

import os
import subprocess
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from .model import CLASSES

BINS = 10


def score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns macro F1, log loss and one-against-rest ROC AUC, computed by scikit-learn."""
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


# scikit-learn does not use JAX, so the program may be dispatched asynchronously.
_score = callout.options(score, numpy_only=True, name="scikit-learn score")


def sklearn_score(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Calls `score` from inside the program. Returns [F1, log loss, ROC AUC]."""
    return callout.pure_callback(_score, jax.ShapeDtypeStruct((3,), jnp.float32), jax.nn.softmax(logits), labels)


def build_native(folder: Path) -> None:
    """Compiles evaluate.cc, like a user of callout would, and registers its callback."""
    source, library = Path(__file__).parent / "evaluate.cc", folder / "libevaluate.so"
    flags = ["-shared", "-fPIC", "-std=c++20", "-O2", "-I", callout.include_dir()]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, str(source), "-o", str(library)], check=True)
    callout.register("digits.evaluate", f"{library}:evaluate")


def native_evaluate(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Calls evaluate.cc from inside the program. Returns (confusion matrix, calibration histogram)."""
    results = (
        jax.ShapeDtypeStruct((CLASSES, CLASSES), jnp.int32),
        jax.ShapeDtypeStruct((BINS, 3), jnp.float32),
    )
    return callout.pure_callback("digits.evaluate", results, logits, labels)
