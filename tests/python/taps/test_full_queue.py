# SPDX-License-Identifier: Apache-2.0
"""Tests slow receivers: a blocked worker does not delay the other, and a full queue follows the tap's policy."""

import threading

import callout
import jax
import jax.numpy as jnp
import pytest
from jax import lax


def test_a_blocked_python_tap_never_delays_a_native_sink(tmp_path):
    inside, release = threading.Event(), threading.Event()

    def blocking(value):
        inside.set()
        assert release.wait(30)

    path = tmp_path / "out.jsonl"
    sink = callout.sinks.JsonLines(path)
    f = jax.jit(lambda x: (callout.tap(blocking, x), callout.tap(sink, x)))
    f(1.0)
    assert inside.wait(30)
    for i in range(100):
        f(float(i))
    deadline = threading.Event()
    for _ in range(3000):  # the file grows while the Python worker is stuck
        if path.read_text().count("\n") == 101:
            break
        deadline.wait(0.01)
    assert path.read_text().count("\n") == 101
    assert not release.is_set()
    release.set()
    callout.barrier_wait()


def fill_queue(policy, release):
    """Runs a program of 30 taps of 1 MB while the tap's function is stuck; returns the records that arrived."""
    got, inside = [], threading.Event()

    def receive(value):
        got.append(float(value[0]))
        inside.set()
        assert release.wait(60)

    big = jnp.zeros(262_144)
    f = jax.jit(lambda x: lax.fori_loop(0, 30, lambda i, c: callout.tap(receive, c, on_full=policy) + 1, x))
    f = f.lower(big).compile()  # compiles first, which is slow on an emulated processor
    return f, big, got, inside


def test_on_full_drop_newest_counts_its_drops(small_queue):
    release = threading.Event()
    f, big, got, _ = fill_queue("drop_newest", release)
    f(big).block_until_ready()
    release.set()
    callout.barrier_wait()
    label = next(label for label in callout.stats()["callbacks"] if "fill_queue" in label)
    dropped = callout.stats()["callbacks"][label]["drops"]
    assert got == list(range(len(got)))  # the oldest, in order
    assert 10 <= len(got) < 30
    assert dropped == 30 - len(got)


@pytest.mark.native_only("JAX calls every failure INTERNAL")
@pytest.mark.cpu_only("a GPU's program may be past its taps when the queue is full")
def test_on_full_fail_fails_the_program(small_queue):
    release = threading.Event()
    f, big, _, _ = fill_queue("fail", release)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r'RESOURCE_EXHAUSTED.*on_full="fail"'):
        f(big).block_until_ready()
    release.set()
    callout.barrier_wait()
    with pytest.raises(jax.errors.JaxRuntimeError):  # JAX raises the program's failure here, too, once
        jax.effects_barrier()


@pytest.mark.native_only("JAX calls every failure INTERNAL")
def test_on_full_fail_fails_the_program_or_the_barrier(small_queue):
    """On a GPU the next tap fails, or the barrier if it comes first: docs/cuda_callbacks.md."""
    release = threading.Event()
    f, big, got, _ = fill_queue("fail", release)
    texts = []
    for wait in (lambda: f(big).block_until_ready(), release.set, callout.barrier_wait, jax.effects_barrier):
        try:
            wait()
        except (jax.errors.JaxRuntimeError, callout.TapError) as error:
            texts.append(str(error))
    assert any('the tap was made with on_full="fail"' in text for text in texts), texts
    assert got == sorted(got)  # the records that found room, in order
    assert len(got) < 30


def test_on_full_block_loses_nothing(small_queue):
    release = threading.Event()
    f, big, got, inside = fill_queue("block", release)
    thread = threading.Thread(target=lambda: f(big).block_until_ready())
    thread.start()
    assert inside.wait(30)
    while not any(queue["blocked"] for queue in callout.stats()["queues"]):
        thread.join(0.01)
    assert thread.is_alive()
    release.set()
    thread.join(60)
    assert not thread.is_alive()
    callout.barrier_wait()
    assert got == list(range(30))
    python_queues = [queue for queue in callout.stats()["queues"] if queue["worker"] == "python"]
    assert all(queue["high_water_bytes"] <= 2 * small_queue for queue in python_queues)
