# SPDX-License-Identifier: Apache-2.0
"""Measures calls of a jitted function with a callback, and whether the caller waits for the program."""

import time
from collections.abc import Sequence

import callout
import jax
import jax.numpy as jnp
import numpy as np
from measure import Contender, Refused, Row, compare
from methods import call_methods, dispatch_taps, dispatch_watches, ordered_taps
from program import EMPTY, WORK, Method

# A program of some tens of milliseconds on one thread, so that the caller has the other cores.
SIZE, STEPS = 4096, 1500
FIXED_POINT = 0.739085  # the cosine's


class Dispatch:
    """A round makes `count` calls of a small jitted function, and then waits for the last one."""

    def __init__(self, method: Method, count: int):
        self.method, self.count = method, count
        self.function = jax.jit(lambda x: method.apply(x) + 1)
        self.x = jnp.zeros((), jnp.float32)
        self.function(self.x).block_until_ready()

    def play(self) -> dict[str, float]:
        received = self.method.received
        callout.barrier_wait()
        before = received() if received else 0
        x = self.x
        start = time.perf_counter()
        for _ in range(self.count):
            x = self.function(x)
        x.block_until_ready()
        seconds = time.perf_counter() - start
        if float(x) != self.count:
            raise Refused(f"the result is {float(x)}, not {self.count}")
        if received:
            callout.barrier_wait()
            jax.effects_barrier()
            if (count := received() - before) != self.count:
                raise Refused(f"{count} records arrived, not {self.count}")
        return {"a call": seconds / self.count * 1e6}


class Wait:
    """A round is one call of a slow function, with the time until it returns, and until its result is ready."""

    def __init__(self, method: Method):
        self.method = method

        @jax.jit
        def function(work, x):
            x = x + 0 * (work @ work)[0, 0]  # XLA would dispatch a small program synchronously
            x = jax.lax.fori_loop(0, STEPS, lambda _, x: jnp.cos(x), x)
            return method.apply(x[0])

        self.function = function
        self.inputs = (jnp.asarray(WORK), jnp.ones(SIZE, jnp.float32))
        self.function(*self.inputs).block_until_ready()

    def play(self) -> dict[str, float]:
        jax.effects_barrier()
        start = time.perf_counter()
        result = self.function(*self.inputs)
        returned = time.perf_counter() - start
        result.block_until_ready()
        ready = time.perf_counter() - start
        callout.barrier_wait()
        if not np.isclose(float(result), FIXED_POINT, rtol=1e-4):
            raise Refused(f"the result is {float(result)}, not {FIXED_POINT}")
        return {"call returns": returned * 1e3, "result ready": ready * 1e3}


def plain() -> Method:
    return Method("plain jit", EMPTY, lambda x: x)


def _calls(missing: dict[str, str]) -> list[Method]:
    dropped = {"empty loop", "callout, Python, zero_copy"}
    return [plain(), *(m for m in call_methods(False, missing) if m.label not in dropped)]


def _taps() -> list[Method]:
    return [plain(), *(m for m in dispatch_taps() if m.role != EMPTY)]


def _watches() -> list[Method]:
    return [plain(), *dispatch_watches()]


def _ordered() -> list[Method]:
    return [plain(), *ordered_taps()]


def _dispatches(key: str, title: str, methods: Sequence[Method], rounds: int) -> Row:
    contenders = [Contender(m.label, m.role, Dispatch(m, 200 if m.slow else 1000).play) for m in methods]
    return compare(key, title, "us", contenders, rounds)


def _waits(key: str, title: str, methods: Sequence[Method], rounds: int) -> Row:
    return compare(key, title, "ms", [Contender(m.label, m.role, Wait(m).play) for m in methods], rounds)


def run(rounds: int, missing: dict[str, str]) -> list[Row]:
    return [
        _dispatches("dispatch/call", "a jitted function with one call, dispatched and run", _calls(missing), rounds),
        _dispatches("dispatch/tap", "a jitted function with one tap, dispatched and run", _taps(), rounds),
        _dispatches(
            "dispatch/watch", "a jitted function with a watch or a bar, dispatched and run", _watches(), rounds
        ),
        _dispatches(
            "dispatch/ordered", "a jitted function with one ordered tap, dispatched and run", _ordered(), rounds
        ),
        _waits(
            "wait/call", "a long program with one call at its end: when its caller goes on", _calls(missing), rounds
        ),
        _waits("wait/tap", "a long program with one tap at its end: when its caller goes on", _taps(), rounds),
        _waits(
            "wait/ordered",
            "a long program with one ordered tap at its end: when its caller goes on",
            _ordered(),
            rounds,
        ),
    ]
