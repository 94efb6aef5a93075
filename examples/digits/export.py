# SPDX-License-Identifier: Apache-2.0
"""Exports the trained model as a program that runs without Python. Its callbacks are names."""

from pathlib import Path

import callout
import jax
import numpy as np

from . import model
from .callbacks import native_evaluate


def write(params: model.Params, data: model.Data, folder: Path) -> None:
    """Writes digits.jax, test.npz with its arguments, and expected.npz with its results for them."""

    @jax.jit
    def classify(x, labels):
        logits = model.logits(params, x)
        digits = logits.argmax(axis=1).astype(np.int32)
        callout.tap("accuracy", (digits == labels).mean())
        return digits, native_evaluate(logits, labels)[0]

    # The CPU plugin is older than JAX, and reads this version.
    exported = callout.export(classify, stablehlo_version="1.13.0")(data.test_x, data.test_y)
    (folder / "digits.jax").write_bytes(exported.serialize())
    np.savez(folder / "test.npz", data.test_x, data.test_y)
    callout.register("accuracy", callout.sinks.Null(name="accuracy"))
    np.savez(folder / "expected.npz", *classify(data.test_x, data.test_y))
