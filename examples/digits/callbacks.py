# SPDX-License-Identifier: Apache-2.0
"""What the running program asks for: a scikit-learn score, and C++."""

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
