# SPDX-License-Identifier: Apache-2.0
"""The whole training as one jitted program, with its taps and calls."""

from typing import NamedTuple

import callout
import jax
import jax.numpy as jnp

from . import model
from .callbacks import Progress, native_evaluate, sklearn_score

EPOCHS, BATCH = 240, 64
RECORD_EVERY = 10  # steps


class History(NamedTuple):
    """What the program returns at its end: one entry an epoch."""

    accuracy: jax.Array
    scores: jax.Array  # F1, log loss, ROC AUC
    confusion: jax.Array
    calibration: jax.Array


def steps_per_epoch(data: model.Data) -> int:
    return data.train_x.shape[0] // BATCH


def make_program(data: model.Data, progress: Progress, records: callout.sinks.JsonLines):
    """(state, key) -> (state, History), jitted: EPOCHS passes over the data, without ever coming back to Python."""
    per_epoch = steps_per_epoch(data)
    steps = EPOCHS * per_epoch
    line = callout.options(progress, name="progress line")

    def step(carry, batch):
        state, test_accuracy, smooth = carry
        x, y, key = batch
        state, report = model.train_step(state, x, y, key, steps)
        smooth = 0.98 * smooth + 0.02 * report.accuracy
        callout.tap(
            line,
            {"step": state.step, "loss": report.loss, "accuracy": smooth, "test": test_accuracy},
            min_interval=progress.interval,
        )
        callout.tap(
            records,
            {"step": state.step, "loss": report.loss, "grad_norm": report.grad_norm},
            name="train",
            every=RECORD_EVERY,
        )
        return (state, test_accuracy, smooth), None

    def epoch(carry, key):
        state, test_accuracy, smooth = carry
        order_key, noise_key = jax.random.split(key)
        order = jax.random.permutation(order_key, data.train_x.shape[0])[: per_epoch * BATCH].reshape(per_epoch, BATCH)
        batches = (data.train_x[order], data.train_y[order], jax.random.split(noise_key, per_epoch))
        (state, test_accuracy, smooth), _ = jax.lax.scan(step, (state, test_accuracy, smooth), batches)
        logits = model.logits(state.params, data.test_x)
        accuracy = (logits.argmax(axis=1) == data.test_y).mean()
        scores = sklearn_score(logits, data.test_y)
        f1, log_loss, auc = scores
        callout.tap(records, {"step": state.step, "f1": f1, "log_loss": log_loss, "auc": auc}, name="test")
        return (state, accuracy, smooth), History(accuracy, scores, *native_evaluate(logits, data.test_y))

    @jax.jit
    def train(state, key):
        carry = (state, jnp.float32(0), jnp.float32(0.1))
        (state, _, smooth), history = jax.lax.scan(epoch, carry, jax.random.split(key, EPOCHS))
        return state, smooth, history

    return train
