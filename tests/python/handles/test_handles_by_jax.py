# SPDX-License-Identifier: Apache-2.0
"""Tests objects of the host in programs that use JAX's own callbacks."""

import callout
import failing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import sinks
from jax import lax


@pytest.fixture(autouse=True)
def by_jax(monkeypatch):
    monkeypatch.setattr(callout.config, "fallback", "always")


def test_a_flag_stops_a_loop():
    stop = callout.StopFlag()

    @jax.jit
    def count(stop, n):
        return lax.while_loop(lambda i: (i < n) & ~stop.is_set(), lambda i: i + 1, 0)

    assert int(count(stop, 3)) == 3
    stop.set()
    assert int(count(stop, 3)) == 0
    stop.clear()
    assert (int(count(stop, 3)), bool(stop.is_set())) == (3, False)
    assert bool(callout.StopFlag(timeout=0).is_set())
    assert count._cache_size() == 1


def test_a_loop_keeps_its_carry():
    stop = callout.StopFlag()

    def step(carry, x):
        callout.io_callback(lambda x: stop.set() if x == 2 else None, None, x, ordered=True)
        return carry + x, carry

    carry, rows, steps = jax.jit(lambda stop, xs: callout.scan(step, 0.0, xs, stop=stop))(stop, jnp.arange(5.0))
    assert int(steps) < 5
    assert float(carry) == sum(range(int(steps)))
    assert rows.shape == (5,)


def test_values_are_read_whole():
    value = callout.HostValue({"a": 1, "b": np.arange(3.0)})
    read = jax.jit(lambda value: value.get())
    assert jax.tree.map(np.ndarray.tolist, jax.tree.map(np.asarray, read(value))) == {"a": 1, "b": [0, 1, 2]}
    value.set({"a": 2, "b": np.ones(3)})
    assert jax.tree.map(np.ndarray.tolist, jax.tree.map(np.asarray, read(value))) == {"a": 2, "b": [1, 1, 1]}
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), value, callout.HostValue({"a": 7, "b": np.zeros(3)}))
    assert jax.vmap(lambda value: value.get()["a"])(batch).tolist() == [2, 7]


def test_a_program_sends_to_its_argument(tmp_path):
    seen = [[], []]
    send = jax.jit(lambda sink, x: callout.tap(sink, {"x": x}))
    for run in range(2):
        send(sinks.Function(seen[run].append), run)
        send(sinks.JsonLines(tmp_path / str(run)), run)
    callout.barrier_wait()
    assert [[int(value["x"]) for value in one] for one in seen] == [[0], [1]]
    assert [(tmp_path / str(run)).read_text().count(f'"x": {run}') for run in range(2)] == [1, 1]
    assert send._cache_size() == 2


def test_dead_and_invalid_handles_are_errors():
    ask = jax.jit(lambda stop: stop.is_set())
    handle = jax.device_put(callout.StopFlag(), jax.devices()[0])
    callout.barrier_wait()
    with failing.fails("StopFlag: the object of this handle is gone, because nothing in Python refers to it any more"):
        ask(handle)
    with failing.fails("StopFlag: its leaf is no handle of this process"):
        ask(jax.tree.map(jnp.zeros_like, callout.StopFlag()))


def test_programs_for_other_platforms_are_lowered():
    traced = jax.jit(lambda stop, value: (stop.is_set(), value.get())).trace(callout.StopFlag(), callout.HostValue(1.0))
    assert "callout.v1" not in traced.lower().as_text()
    assert "callout.v1" not in traced.lower(lowering_platforms=("tpu",)).as_text()


@pytest.mark.native_only("exported programs that read have no other way")
def test_a_loaded_program_reads_by_the_native_path():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(callout.config, "fallback", "auto")
        exported = callout.export(jax.jit(lambda stop: stop.is_set()))(callout.StopFlag()).serialize()
    assert not jax.export.deserialize(exported).call(callout.StopFlag().handle)
