# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a progress bar for a step of a scan, beside jax-tqdm. Bars are drawn into a file."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
from callout.progress import progress, scan_tqdm
from measure import Contender, Refused, Row, compare
from program import EMPTY, OURS

PLAIN, JAX_TQDM = "no bar", "jax-tqdm"
STEPS = (10_000, 100_000, 1_000_000)


def body(carry: Any, x: Any) -> Any:
    return carry * 0.999 + x.astype(jnp.float32), None


class Scan:
    """A round is one run of a compiled scan. `over`: the time of a step minus that of the scan without a bar just before."""

    def __init__(self, n: int, decorate: Callable[[Any], Any]):
        self.n = n
        self.run = jax.jit(lambda c: jax.lax.scan(decorate(body), c, jnp.arange(n))[0])
        self.plain = jax.jit(lambda c: jax.lax.scan(body, c, jnp.arange(n))[0])
        self._seconds(self.run)
        self.expected = float(self.plain(1.0))

    def _seconds(self, run: Callable[[float], jax.Array]) -> float:
        start = time.perf_counter()
        out = run(1.0).block_until_ready()
        seconds = time.perf_counter() - start
        callout.barrier_wait()
        jax.effects_barrier()
        self.out = float(out)
        return seconds

    def play(self) -> dict[str, float]:
        plain, seconds = self._seconds(self.plain), self._seconds(self.run)
        if self.out != self.expected:
            raise Refused(f"the result is {self.out}, not {self.expected}")
        return {"a step": seconds / self.n * 1e9, "over": (seconds - plain) / self.n * 1e9}


def _ways(n: int, sink: Any, missing: dict[str, str]) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    ways: dict[str, tuple[str, Callable[[Any], Any]]] = {
        PLAIN: (EMPTY, lambda body: body),
        "callout scan_tqdm": (OURS, scan_tqdm(n, tqdm_type="std", file=sink)),
        "callout progress": (OURS, progress(n, tqdm_type="std", file=sink)),
        "callout progress, a field": (OURS, progress(n, tqdm_type="std", file=sink, c=lambda out: out[0])),
    }
    try:
        import jax_tqdm
    except ImportError as error:
        missing[JAX_TQDM] = str(error)
    else:
        ways[JAX_TQDM] = ("jax", jax_tqdm.scan_tqdm(n, tqdm_type="std", file=sink))
    return ways


def run(rounds: int, missing: dict[str, str]) -> list[Row]:
    rows = []
    with Path(os.devnull).open("w") as sink:
        for n in STEPS:
            contenders = [
                Contender(label, role, Scan(n, decorate).play)
                for label, (role, decorate) in _ways(n, sink, missing).items()
            ]
            rows.append(compare(f"progress/{n}", f"progress bar, scan of {n:,} steps", "ns", contenders, rounds))
    return rows
