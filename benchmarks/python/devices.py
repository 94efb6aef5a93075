# SPDX-License-Identifier: Apache-2.0
"""Measures the replacements of JAX's callbacks in a jit over two devices, in a process with two devices.

Usage of the child: python devices.py ROUNDS. Prints a line of JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
from dispatch import plain
from dropins import PURE, methods, pure
from measure import Contender, Refused, Row, compare
from methods import counter
from program import OURS, Method


class Sharded:
    """A round is a loop over an array on two devices, with a call that gathers the array in each step."""

    def __init__(self, method: Method, n: int):
        self.method, self.n = method, n
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
        self.x = jax.device_put(jnp.zeros(256), jax.NamedSharding(mesh, jax.P("d")))
        self.program = jax.jit(lambda x: jax.lax.fori_loop(0, n, lambda _, c: method.apply(c) + 1, x))
        self.program(self.x).block_until_ready()

    def play(self) -> dict[str, float]:
        callout.barrier_wait()
        jax.effects_barrier()
        received = self.method.received
        before = received() if received else 0
        start = time.perf_counter()
        x = self.program(self.x).block_until_ready()
        seconds = time.perf_counter() - start
        callout.barrier_wait()
        jax.effects_barrier()
        if float(x[0]) != self.n:
            raise Refused(f"the result is {float(x[0])}, not {self.n}")
        if received and (count := received() - before) != self.n:
            raise Refused(f"{count} records arrived, not {self.n}")
        return {"program": seconds / self.n * 1e6}


class Dispatched:
    """A round calls a small function of a sharded array with one callback, and waits for each result.

    Up to JAX 0.11, programs with collectives can deadlock if they are dispatched without waiting.
    """

    def __init__(self, method: Method, count: int):
        self.count = count
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
        self.x = jax.device_put(jnp.zeros(256), jax.NamedSharding(mesh, jax.P("d")))
        self.function = jax.jit(lambda x: method.apply(x) + 1, out_shardings=self.x.sharding)
        self.function(self.x).block_until_ready()

    def play(self) -> dict[str, float]:
        callout.barrier_wait()
        jax.effects_barrier()
        x = self.x
        start = time.perf_counter()
        for _ in range(self.count):
            x = self.function(x).block_until_ready()
        seconds = time.perf_counter() - start
        if float(x[0]) != self.count:
            raise Refused(f"the result is {float(x[0])}, not {self.count}")
        return {"a call": seconds / self.count * 1e6}


def _dispatches(kind: str, group: Sequence[Method], rounds: int) -> Row:
    title = f"a jitted function of f32[256] over two devices with one {kind}, dispatched and run"
    contenders = [Contender(m.label, m.role, Dispatched(m, 100).play) for m in (plain(), *group)]
    return compare(f"dispatch/two devices/{kind}", title, "us", contenders, rounds)


def measure(rounds: int) -> list[Row]:
    take, received = counter()
    gather = Method("callout.tap, gather", OURS, lambda x: callout.tap(take, x), received=received)
    local = Method("callout.tap, local", OURS, lambda x: callout.tap(lambda _: None, x, sharding="local"))
    groups = {
        "pure_callback": [pure(entry) for entry in PURE],
        "io_callback": methods("io_callback", False),
        "debug_callback": [*methods("debug_callback", False), gather, local],
    }
    loops = [
        compare(
            f"two devices/{kind}",
            f"{kind} of f32[256] over two devices, in a loop",
            "us",
            [Contender(m.label, m.role, Sharded(m, 200).play) for m in group],
            rounds,
        )
        for kind, group in groups.items()
    ]
    groups["ordered io_callback"] = methods("io_callback", True)  # JAX has no ordered debug callback on several devices
    return loops + [_dispatches(kind, group, rounds) for kind, group in groups.items()]


def run(rounds: int) -> list[Row]:
    command = [sys.executable, str(Path(__file__).resolve()), str(rounds)]
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "XLA_FLAGS": flags}
    )
    return [Row.from_json(row) for row in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    print(json.dumps([row.as_json() for row in measure(int(sys.argv[1]))]))
