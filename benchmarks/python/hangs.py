# SPDX-License-Identifier: Apache-2.0
"""Checks that callbacks which use JAX end while their own program, and others, are in flight.

Usage: python hangs.py [--rounds N] runs each promised scenario in its own process with a time limit. python hangs.py
SCENARIO [--rounds N] [--remedy R] [--jax] runs one in this process; --jax uses JAX's own callbacks.
"""

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np

IN_FLIGHT = 32  # XLA:CPU's limit for one device
CALLS = 15
NEVER = (1000,)
PROMISED_FROM = {"queue": (0, 10), "eager": (0, 10), "not_ready": (0, 12), "nested": (0, 12), "broken_promise": NEVER}
REMEDIES = ("ready", "spare_device", "no_async_dispatch", "numpy_only")
F32 = jax.ShapeDtypeStruct((), jnp.float32)

step = jax.jit(lambda x: x + 1)
product = jax.jit(lambda m: jnp.tanh(m @ m))
inner = jax.jit(lambda x: jnp.sin(x) ** 2)


class Scenario:
    """The programs of a scenario. `full`: set when a dispatch would block. `release`: makes the result of `hold` ready."""

    def __init__(self, pure_callback, remedy):
        self.full, self.release, self.remedy = threading.Event(), threading.Event(), remedy
        # JAX copies NumPy arrays in the background, so an array that is passed to a program is not ready at first, even
        # without async dispatch.
        self.small, self.large = jax.block_until_ready([jnp.full((n, n), 0.05) for n in (300, 1000)])
        hold = callout.options(self.wait_for_release, numpy_only=True)
        self.program_with_callback = jax.jit(lambda x: pure_callback(lambda v: np.asarray(jnp.cos(v)), F32, x))
        callback = callout.options(self.use_numpy, numpy_only=True) if remedy == "numpy_only" else self.use_jax
        liar = callout.options(self.use_jax, numpy_only=True)
        self.call_eagerly = lambda x: pure_callback(callback, F32, x)
        # The product keeps XLA from running the program in the dispatching thread, which must not wait.
        self.hold = jax.jit(lambda m: callout.pure_callback(hold, F32, (m @ m).mean()))
        self.call = jax.jit(self.call_eagerly)
        self.call_liar = jax.jit(lambda x: pure_callback(liar, F32, x))
        self.call_nested = jax.jit(lambda x: pure_callback(self.use_nested, F32, x))

    def wait_for_release(self, x):
        self.release.wait()
        return x

    def wait_until_full(self):
        # If programs are dispatched synchronously, none are queued behind one, and the wait times out once.
        if not self.full.wait(0.2):
            self.full.set()

    def use_numpy(self, x):
        self.wait_until_full()
        return np.sin(x) ** 2

    def use_jax(self, x, program=inner):
        self.wait_until_full()
        if self.remedy == "spare_device":
            with jax.default_device(jax.devices("cpu")[-1]):
                return np.asarray(program(np.asarray(x)))
        return np.asarray(program(x))

    def use_nested(self, x):
        return self.use_jax(x, self.program_with_callback)

    def not_ready(self, call=None):
        """Runs jitted calls whose input is not ready, followed by as many programs as may be in flight."""
        if self.remedy in ("ready", "no_async_dispatch"):
            self.release.set()
        x = self.hold(self.small)
        if self.remedy == "ready":
            x.block_until_ready()
        results = [(call or self.call)(x) for _ in range(CALLS)]
        self.release.set()
        for _ in range(IN_FLIGHT - CALLS):
            results.append(step(results[-1]))
        return results

    def nested(self):
        """Runs `not_ready` with callbacks in the programs that the callbacks run."""
        return self.not_ready(self.call_nested)

    def broken_promise(self):
        """Runs `not_ready` with callbacks that use JAX although they were declared numpy_only."""
        return self.not_ready(self.call_liar)

    def queue(self):
        """Queues twice as many programs behind a call as may be in flight."""
        results = [self.call(np.float32(1))]
        for _ in range(2 * IN_FLIGHT):
            results.append(step(results[-1]))
        return results

    def eager(self):
        """Runs calls outside of a compiled program."""
        m, results = self.large, []
        for _ in range(CALLS):
            m = product(m)
            results.append(step(self.call_eagerly(step(m[0, 0]))))
        return results

    def run(self, name):
        """Runs one round of a scenario."""
        self.full.clear()
        self.release.clear()
        results = getattr(self, name)()
        self.full.set()
        jax.block_until_ready(results)


def promised():
    """Returns the scenarios that must end with the installed JAX."""
    version = tuple(int(part) for part in jax.__version__.split(".")[:2])
    return [name for name, since in PROMISED_FROM.items() if version >= since]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?", choices=[*PROMISED_FROM])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--remedy", choices=REMEDIES)
    parser.add_argument("--jax", action="store_true", help="JAX's own callbacks")
    args = parser.parse_args()
    if args.scenario is None:
        for name in promised():
            command = [sys.executable, str(Path(__file__).resolve()), name, "--rounds", str(args.rounds)]
            subprocess.run(command, check=True, timeout=60 + args.rounds)
        return
    if args.remedy == "spare_device":
        jax.config.update("jax_num_cpu_devices", 2)
    if args.remedy == "no_async_dispatch":
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    scenario = Scenario(jax.pure_callback if args.jax else callout.pure_callback, args.remedy)
    for _ in range(args.rounds):
        scenario.run(args.scenario)
    print(f"{args.scenario}: {args.rounds} rounds ended, jax {jax.__version__}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
