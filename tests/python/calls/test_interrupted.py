# SPDX-License-Identifier: Apache-2.0
"""Tests signal handlers and destructors, which may run between any two instructions, and tap, call and wait there."""

import gc
import sys
import threading
from pathlib import Path

import callout
import jax
import limited
import numpy as np
import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "interrupted.py"
ROUNDS = 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_interruptions_may_tap_call_and_wait(seed):
    done = limited.run(
        [sys.executable, PROGRAM, str(seed), str(ROUNDS)], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-8000:]
    assert int(done.stderr.splitlines()[-1].split()[0]) > 100 * ROUNDS, done.stderr[-8000:]


def test_destructors_that_the_collector_calls_may_tap(tmp_path):
    seen, late = [], []
    f = jax.jit(lambda x: callout.tap(seen.append, x))
    f(np.float32(0))  # traces f here: a tap in a destructor becomes part of a program that is being traced

    class Cycle:
        def __init__(self, sink):
            self.me, self.sink = self, sink

        def __del__(self):
            callout.tap(late.append, np.float32(1))

    def work(number):
        for i in range(200):
            Cycle(callout.sinks.JsonLines(tmp_path / f"{number}-{i}.jsonl"))
            f(np.float32(i))
            callout.tap(seen.append, np.float32(i))

    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    callout.barrier_wait()
    assert (len(seen), len(late)) == (801, 400)
