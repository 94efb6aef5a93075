# SPDX-License-Identifier: Apache-2.0
"""Tests the embedded settings of exported taps in the command: watches, steps, and the choice of records."""

import json

import callout
import command
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]


@pytest.fixture
def program(tmp_path):
    return lambda jitted, *shapes: command.Program(tmp_path, jitted, *shapes)


def test_a_watch_reports_without_python_and_without_a_binding(program):
    @jax.jit
    def f(x):
        return lax.fori_loop(0, 5, lambda i, x: callout.watch(x * 1e20, "growing", step=10 * i), x)

    x = np.array([1.0, 0.0], np.float32)
    made = program(f, x)
    info = made.info()
    assert "watch (f32[2], s32[])" in info.out
    assert "--bind" not in info.out
    done = made.run(x)
    assert done.code == 0, done.err
    np.testing.assert_array_equal(done.results[0], [np.inf, 0])
    assert (
        done.err.count("watch 'growing': 0 NaN and 1 infinite elements in step 10; the first is infinite, at [0]") == 1
    )


def test_a_watch_that_stops_fails_the_run(program):
    x = np.array([1.0, -1.0], np.float32)
    done = program(jax.jit(lambda x: callout.watch(jnp.log(x), "log", stop=True)), x).run(x)
    assert done.code != 0
    assert "watch 'log': 1 NaN and 0 infinite elements in step 0; the first is a NaN, at [1]" in done.err
    assert done.results == []


def test_every_uses_the_step(program, tmp_path):
    @jax.jit
    def f(first):
        def step(i, x):
            callout.tap("log", {"x": x}, step=i, every=4, only_process=0)
            callout.tap("log", {"never": x}, only_process=1)
            return x + 1

        return lax.fori_loop(first, first + 10, step, 0)

    path = tmp_path / "log.jsonl"
    done = program(f, np.int32(6)).run(np.int32(6), bind=[f"log=jsonl:{path}"])
    assert done.code == 0, done.err
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["x"] for record in records] == [2, 6]
