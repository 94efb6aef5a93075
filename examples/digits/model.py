# SPDX-License-Identifier: Apache-2.0
"""The data, the classifier and Adam, in plain JAX without callbacks."""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

CLASSES = 10
WIDTHS = (64, 256, 128, CLASSES)
LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8  # the rate falls to 0 along a cosine
NOISE = 0.4  # standard deviation that is added to the pixels, against overfitting

Params = list[tuple[jax.Array, jax.Array]]


class Data(NamedTuple):
    train_x: jax.Array
    train_y: jax.Array
    test_x: jax.Array
    test_y: jax.Array


class State(NamedTuple):
    """The state that Adam carries from step to step."""

    params: Params
    mean: Params
    square: Params
    step: jax.Array


class StepReport(NamedTuple):
    loss: jax.Array
    accuracy: jax.Array
    grad_norm: jax.Array


def load() -> Data:
    """Returns 1797 handwritten digits of 8 x 8 pixels, a quarter of them held out."""
    x, y = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(x / 16, y, test_size=0.25, stratify=y, random_state=0)
    as_float, as_int = (lambda a: jnp.asarray(a, jnp.float32)), (lambda a: jnp.asarray(a, jnp.int32))
    return Data(as_float(train_x), as_int(train_y), as_float(test_x), as_int(test_y))


def start(seed: int) -> State:
    rng = np.random.default_rng(seed)
    params = [
        (jnp.asarray(rng.normal(0, np.sqrt(2 / n), (n, m)), jnp.float32), jnp.zeros(m, jnp.float32))
        for n, m in itertools.pairwise(WIDTHS)
    ]
    zeros = jax.tree.map(jnp.zeros_like, params)
    return State(params, zeros, zeros, jnp.int32(0))


def logits(params: Params, x: jax.Array) -> jax.Array:
    *hidden, (last_w, last_b) = params
    for w, b in hidden:
        x = jax.nn.relu(x @ w + b)
    return x @ last_w + last_b


def _loss(params: Params, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    scores = logits(params, x)
    right = jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], axis=1)
    return -right.mean(), (scores.argmax(axis=1) == y).mean()


def train_step(state: State, x: jax.Array, y: jax.Array, key: jax.Array, steps: int) -> tuple[State, StepReport]:
    """Returns the next state and the report of one of `steps` steps."""
    x = x + NOISE * jax.random.normal(key, x.shape)
    (loss, accuracy), grads = jax.value_and_grad(_loss, has_aux=True)(state.params, x, y)
    step = state.step + 1
    rate = LEARNING_RATE * 0.5 * (1 + jnp.cos(jnp.pi * state.step / steps))
    mean = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state.mean, grads)
    square = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, state.square, grads)

    def update(p: Any, m: Any, v: Any) -> Any:
        m, v = m / (1 - BETA1**step), v / (1 - BETA2**step)
        return p - rate * m / (jnp.sqrt(v) + EPSILON)

    params = jax.tree.map(update, state.params, mean, square)
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    return State(params, mean, square, step), StepReport(loss, accuracy, norm)
