# SPDX-License-Identifier: Apache-2.0
"""Measures `locate_nans`: the training step of a small transformer, without a NaN."""

import time
from collections.abc import Callable
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from measure import Contender, Refused, Row, compare
from program import EMPTY, JAX, OURS

WIDTH, HEADS, LAYERS, LENGTH, BATCH, WORDS = 128, 4, 2, 128, 4, 256


def _start() -> tuple[Any, jax.Array]:
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> jax.Array:
        return jnp.asarray(random.normal(size=(rows, columns)) / rows**0.5, jnp.float32)

    shapes = {"q": 1, "k": 1, "v": 1, "o": 1, "up": 4}
    blocks = [
        {**{name: matrix(WIDTH, WIDTH * wide) for name, wide in shapes.items()}, "down": matrix(4 * WIDTH, WIDTH)}
        for _ in range(LAYERS)
    ]
    weights = {"words": matrix(WORDS, WIDTH), "places": matrix(LENGTH, WIDTH), "blocks": blocks}
    zeros = jax.tree.map(jnp.zeros_like, weights)
    return (weights, zeros, zeros, jnp.float32(0)), jnp.asarray(random.integers(WORDS, size=(BATCH, LENGTH)))


def _norm(x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6)


def _attention(block: Any, x: jax.Array) -> jax.Array:
    def split(y: jax.Array) -> jax.Array:
        return y.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    q, k, v = split(x @ block["q"]), split(x @ block["k"]), split(x @ block["v"])
    scores = q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -jnp.inf)
    weights = jax.nn.softmax(scores)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    return mixed @ block["o"]


def _loss(weights: Any, words: jax.Array) -> jax.Array:
    x = weights["words"][words] + weights["places"]
    for block in weights["blocks"]:
        x = x + _attention(block, _norm(x))
        hidden = jax.nn.gelu(_norm(x) @ block["up"])
        x = x + hidden @ block["down"]
    logits = _norm(x) @ weights["words"].T
    likelihoods = jax.nn.log_softmax(logits[:, :-1])
    return -jnp.take_along_axis(likelihoods, words[:, 1:, None], -1).mean()


def _step(state: Any, words: jax.Array) -> tuple[Any, jax.Array]:
    weights, first, second, count = state
    loss, slopes = jax.value_and_grad(_loss)(weights, words)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slopes)
    rate = 1e-3 * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
    return (weights, first, second, count), loss


class Step:
    """A round makes a few training steps, and waits for each. `plain`: the loss must be close to this."""

    def __init__(self, program: Callable[..., Any], loss: Callable[[Any], Any], plain: float | None):
        self.program, self.loss, self.plain = program, loss, plain
        self.given = _start()
        jax.block_until_ready(program(*self.given))

    def play(self) -> dict[str, float]:
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            out = jax.block_until_ready(self.program(*self.given))
            taken.append(time.perf_counter() - start)
        if self.plain is not None and not np.isclose(float(self.loss(out)), self.plain, rtol=1e-4):
            raise Refused("the loss is another")
        return {"step": float(np.median(taken)) * 1e3}


def run(rounds: int) -> list[Row]:
    plain = jax.jit(_step)
    loss = float(plain(*_start())[1])

    def debugged(*args: Any) -> Any:
        with jax.debug_nans(True):
            return plain(*args)

    def off(*args: Any) -> Any:
        callout.config.locate_nans = False
        try:
            return callout.locate_nans(_step)(*args)
        finally:
            callout.config.locate_nans = True

    def of_pair(out: Any) -> Any:
        return out[1]

    programs: list[tuple[str, str, Callable[..., Any], Callable[[Any], Any]]] = [
        ("plain", EMPTY, plain, of_pair),
        ("callout.locate_nans, config.locate_nans=False", OURS, jax.jit(off), of_pair),
        *(
            (f"callout.locate_nans, {which}", OURS, jax.jit(callout.locate_nans(_step, granularity=which)), of_pair)
            for which in ("module", "function", "line", "operation")
        ),
        ("jax_debug_nans: names no line before it has run again", JAX, debugged, of_pair),
        (
            "checkify, nan_checks",
            JAX,
            jax.jit(checkify.checkify(_step, errors=checkify.nan_checks)),
            lambda out: out[1][1],
        ),
    ]
    contenders = [Contender(label, role, Step(program, read, loss).play) for label, role, program, read in programs]
    return [compare("located_nans", "training step of a transformer of 2 layers", "ms", contenders, rounds)]
