# SPDX-License-Identifier: Apache-2.0
"""The whole training as one jitted program with a progress bar, taps and calls."""

from typing import NamedTuple

import callout
import jax
import jax.numpy as jnp

from . import model
from .callbacks import native_evaluate, sklearn_score

EPOCHS, BATCH = 240, 64
RECORD_EVERY = 10  # steps


class History(NamedTuple):
    """The results of the program: one entry for each epoch."""

    accuracy: jax.Array
    scores: jax.Array  # F1, log loss, ROC AUC
    confusion: jax.Array
    calibration: jax.Array


class Sinks(NamedTuple):
    """The sinks of the taps. C++ writes them on a thread of its own."""

    steps: callout.sinks.Tee  # every RECORD_EVERY-th step
    epochs: callout.sinks.Tee
    norms: callout.sinks.Histogram  # of the gradients, every step


def steps_per_epoch(data: model.Data) -> int:
    return data.train_x.shape[0] // BATCH


def make_program(data: model.Data, sinks: Sinks):
    """Returns the jitted program (state, key) -> (state, History): EPOCHS passes over the data without Python in between."""
    per_epoch = steps_per_epoch(data)
    steps = EPOCHS * per_epoch

    def step(carry, batch):
        state, smooth = carry
        x, y, key = batch
        state, report = model.train_step(state, x, y, key, steps)
        smooth = 0.98 * smooth + 0.02 * report.accuracy
        callout.watch(report.loss, "loss", step=state.step, stop=True)
        callout.tap(sinks.norms, report.grad_norm, name="grad_norm")
        callout.tap(
            sinks.steps,
            {"loss": report.loss, "grad_norm": report.grad_norm},
            name="train",
            step=state.step,
            every=RECORD_EVERY,
        )
        return (state, smooth), None

    @callout.progress.progress(
        EPOCHS, "training", unit="epoch", train=lambda out: out[0][1], test=lambda out: out[1].accuracy
    )
    def epoch(carry, key):
        order_key, noise_key = jax.random.split(key)
        order = jax.random.permutation(order_key, data.train_x.shape[0])[: per_epoch * BATCH].reshape(per_epoch, BATCH)
        batches = (data.train_x[order], data.train_y[order], jax.random.split(noise_key, per_epoch))
        (state, smooth), _ = jax.lax.scan(step, carry, batches)
        logits = model.logits(state.params, data.test_x)
        accuracy = (logits.argmax(axis=1) == data.test_y).mean()
        scores = sklearn_score(logits, data.test_y)
        f1, log_loss, auc = scores
        values = {"accuracy": accuracy, "f1": f1, "log_loss": log_loss, "auc": auc}
        callout.tap(sinks.epochs, values, name="test", step=state.step)
        return (state, smooth), History(accuracy, scores, *native_evaluate(logits, data.test_y))

    @jax.jit
    def train(state, key):
        (state, _), history = jax.lax.scan(epoch, (state, jnp.float32(0.1)), jax.random.split(key, EPOCHS))
        return state, history

    return train
