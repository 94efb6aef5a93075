# SPDX-License-Identifier: Apache-2.0
"""Measures requests to a model in a Python service, with a call in the model, and with or without a tap at its end."""

import statistics
import threading
import time
from collections.abc import Callable

import callout
import jax
import jax.numpy as jnp
import numpy as np
from measure import Contender, Refused, Row, compare
from program import EMPTY, JAX, OURS, Method, identity, like

SIZE, LAYERS, LIMIT = 128, 4, np.float32(0.5)
PLAIN, JAX_HOOK, JAX_BOTH = "plain jit", "jax.pure_callback, no tap", "jax.pure_callback and jax.debug.callback"
NATIVE, PYTHON = "callout: C++ function and a native sink", "callout: Python function and tap"

CLIP = """
#include "callout/kernel.h"

void clip(callout::In<float> x, callout::Attr<"limit", float> limit, callout::Out<float> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}
CALLOUT_KERNEL(clip);
"""


def _clip_on_host(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -LIMIT, LIMIT)


def _ignore(_) -> None:
    pass


def _debug(x: jax.Array) -> jax.Array:
    jax.debug.callback(_ignore, x)
    return x


def _ours(x: jax.Array) -> jax.Array:
    return callout.pure_callback(_clip_on_host, like(x), x)


def _services() -> list[tuple[Method, Callable[[jax.Array], jax.Array]]]:
    """Returns the hooks, with the tap of each."""
    clip = callout.cpp.load_inline(CLIP).clip
    sink = callout.sinks.Null()
    return [
        (Method(PLAIN, EMPTY, lambda x: jnp.clip(x, -LIMIT, LIMIT)), identity),
        (Method(JAX_HOOK, JAX, lambda x: jax.pure_callback(_clip_on_host, like(x), x)), identity),
        (Method(JAX_BOTH, JAX, lambda x: jax.pure_callback(_clip_on_host, like(x), x)), _debug),
        (Method(NATIVE, OURS, lambda x: clip(x, limit=float(LIMIT))), lambda x: callout.tap(sink, x)),
        (
            Method(PYTHON, OURS, lambda x: callout.pure_callback(_clip_on_host, like(x), x)),
            lambda x: callout.tap(_ignore, x),
        ),
    ]


class Service:
    """A round makes requests from `threads` threads, with NumPy arrays as inputs and outputs."""

    def __init__(self, hook: Callable[[jax.Array], jax.Array], tap: Callable[[jax.Array], jax.Array], threads: int):
        random = np.random.default_rng(1)
        weights = [jnp.asarray(random.normal(size=(SIZE, SIZE)).astype(np.float32) / SIZE**0.5) for _ in range(LAYERS)]
        self.x = random.normal(size=(SIZE, SIZE)).astype(np.float32)
        self.threads, self.count = threads, 400 // threads

        def model(x, clip):
            for number, weight in enumerate(weights):
                x = jnp.tanh(x @ weight)
                if number == LAYERS // 2:
                    x = clip(x)
            return x.sum(axis=0)

        self.model = jax.jit(lambda x: tap(model(x, hook)))
        self.expected = np.asarray(jax.jit(lambda x: model(x, lambda x: jnp.clip(x, -LIMIT, LIMIT)))(self.x))
        self.answer = np.asarray(self.model(self.x))

    def _ask(self, times: list[float]) -> None:
        for _ in range(self.count):
            start = time.perf_counter()
            answer = np.asarray(self.model(self.x))
            times.append(time.perf_counter() - start)
        self.answer = answer

    def play(self) -> dict[str, float]:
        times: list[list[float]] = [[] for _ in range(self.threads)]
        threads = [threading.Thread(target=self._ask, args=(one,)) for one in times]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
        callout.barrier_wait()
        jax.effects_barrier()
        if not np.allclose(self.answer, self.expected, rtol=1e-4):
            raise Refused("the answer is another one than without a hook")
        each = sorted(one for some in times for one in some)
        return {
            "p50": statistics.median(each) * 1e3,
            "p99": each[len(each) * 99 // 100] * 1e3,
            "a request": seconds / len(each) * 1e3,
        }


def run(rounds: int) -> list[Row]:
    rows = []
    for threads in (1, 8):
        contenders = [Contender(m.label, m.role, Service(m.apply, tap, threads).play) for m, tap in _services()]
        title = (
            f"requests to a model of {LAYERS} layers of f32[{SIZE},{SIZE}] from {threads} thread{'s'[: threads > 1]}"
        )
        rows.append(compare(f"service/{threads}", title, "ms", contenders, rounds))
    return rows
