# SPDX-License-Identifier: Apache-2.0
"""Checks the outputs of the training, counts deliveries, and measures the cost of a callback."""

import statistics
import time
from collections.abc import Callable

import callout
import jax
import jax.numpy as jnp
import numpy as np

from .training import History


def f1_from(confusion: np.ndarray) -> float:
    """Returns macro F1 from the C++ function's matrix, to compare with scikit-learn's."""
    right = np.diag(confusion)
    return float(np.mean(2 * right / (confusion.sum(axis=0) + confusion.sum(axis=1))))


def problems(history: History, records: list[dict], steps: int, every: int) -> list[str]:
    """Returns the problems in the outputs: none, one hopes."""
    wrong = []
    epochs = len(history.accuracy)
    train = [r["step"] for r in records if r["name"] == "train"]
    test = [r["step"] for r in records if r["name"] == "test"]
    if train != list(range(every, steps + 1, every)):
        wrong.append(f"{len(train)} training records, expected steps {every}, {2 * every}, ... up to {steps}")
    if test != list(range(steps // epochs, steps + 1, steps // epochs)):
        wrong.append(f"{len(test)} test records, expected one an epoch ({epochs})")
    if history.accuracy[-1] <= 0.95:
        wrong.append(f"test accuracy is {history.accuracy[-1]:.3f}, expected more than 0.95")
    f1 = [f1_from(matrix) for matrix in history.confusion]
    if not np.allclose(f1, history.scores[:, 0], atol=1e-5):
        wrong.append("scikit-learn's F1 and the one from the C++ confusion matrices differ")
    if not np.allclose(np.trace(history.confusion, axis1=1, axis2=2) / history.confusion[0].sum(), history.accuracy):
        wrong.append("JAX's accuracy and the one from the C++ confusion matrices differ")
    for label, counters in callout.stats()["callbacks"].items():
        if counters["drops"] or counters["errors"]:
            wrong.append(f"{label}: {counters['drops']} records dropped, {counters['errors']} errors")
    return wrong


def deliveries() -> str:
    """Returns how much every callback of the program received."""
    lines = [f"{'what was called':28}{'times':>9}{'left out':>10}{'dropped':>9}{'KB':>9}{'us each':>10}"]
    for label, c in sorted(callout.stats()["callbacks"].items()):
        each = c["host_seconds"] / max(1, c["calls"]) * 1e6
        lines.append(
            f"{label:28}{c['calls']:>9,}{c['skips']:>10,}{c['drops']:>9,}{c['bytes'] / 1e3:>9,.0f}{each:>10,.1f}"
        )
    return "\n".join(lines)


def _microseconds(apply: Callable[[jax.Array], jax.Array], n: int = 2000, runs: int = 5) -> float:
    """Returns the time of one callback in a loop of `n`: the median of a few runs."""
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, n, lambda _, x: apply(x) + 1, x))
    x = jnp.zeros((), jnp.float32)
    loop(x).block_until_ready()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        assert loop(x) == n
        callout.barrier_wait()
        jax.effects_barrier()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / n * 1e6


def _identity(x: np.ndarray) -> np.ndarray:
    return x


def _take(value: np.ndarray) -> None:
    pass


def costs() -> str:
    """Returns the cost of a callback, measured now, beside the cost of JAX's own."""
    scalar = jax.ShapeDtypeStruct((), jnp.float32)

    def jax_tap(x: jax.Array) -> jax.Array:
        jax.debug.callback(_take, x)
        return x

    pairs = [
        (
            "ask a Python function (pure_callback)",
            _microseconds(lambda x: callout.pure_callback(_identity, scalar, x)),
            _microseconds(lambda x: jax.pure_callback(_identity, scalar, x)),
        ),
        (
            "tell a Python function (tap, debug.callback)",
            _microseconds(lambda x: callout.tap(_take, x)),
            _microseconds(jax_tap),
        ),
    ]
    lines = [f"{'one callback, us':46}{'callout':>9}{'JAX':>9}{'ratio':>9}"]
    lines += [f"{name:46}{ours:>9.2f}{theirs:>9.1f}{theirs / ours:>8.0f}x" for name, ours, theirs in pairs]
    return "\n".join(lines)
