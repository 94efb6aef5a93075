# SPDX-License-Identifier: Apache-2.0
"""Tests taps on CUDA. test_gpu_taps.py runs this file on the driver's double, in its own process (see gpu_double.py)."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import _ext
from gpu_double import calls, fail


def collector(values):
    def receive(value):
        values.append(value.tolist())

    return receive


def test_a_tap_in_a_loop_copies_through_the_driver():
    values = []
    receive = collector(values)
    before = calls("cuMemcpyDtoHAsync")
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, c: callout.tap(receive, c) + 1, x))
    out = f(0)
    callout.barrier_wait()
    assert values == list(range(100))
    assert calls("cuMemcpyDtoHAsync") - before == 100
    assert calls("cuStreamWriteValue32") >= 100
    assert out == 100


def test_records_skipped_by_every_are_not_copied():
    values = []
    receive = collector(values)
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, c: callout.tap(receive, c, every=10) + 1, x))
    before = calls("cuMemcpyDtoHAsync")
    f(0)
    callout.barrier_wait()
    assert values == list(range(0, 100, 10))
    assert calls("cuMemcpyDtoHAsync") - before == 10


def test_every_by_a_device_step_is_decided_after_the_copy():
    values = []
    receive = collector(values)
    f = jax.jit(lambda x: jax.lax.fori_loop(3, 30, lambda i, c: callout.tap(receive, c, step=i, every=10) + 1, x))
    f(3)
    callout.barrier_wait()
    assert values == [10, 20]
    (stats,) = [each for label, each in callout.stats()["callbacks"].items() if "collector" in label]
    assert stats["skips"] >= 25


def test_large_values_have_memory_of_their_own():
    sums = []

    def receive(value):
        sums.append(float(value.sum()))

    f = jax.jit(lambda x: callout.tap(receive, x))
    for scale in (1, 2):
        f(scale * np.ones((2048, 1024), np.float32))  # as large as a ring
    callout.barrier_wait()
    assert sums == [2048 * 1024, 2 * 2048 * 1024]


def test_a_failing_driver_fails_the_program_by_name():
    def watched_loss(value):
        del value

    f = jax.jit(lambda x: callout.tap(watched_loss, x))
    f(1.0)
    fail("cuMemcpyDtoHAsync", 1, 999)
    with pytest.raises(Exception, match=r"watched_loss.*cuMemcpyDtoHAsync.*CUDA_ERROR_UNKNOWN \(999\)"):
        jax.block_until_ready(f(2.0))
    f(3.0)
    callout.barrier_wait()


def test_a_bad_value_fails_the_next_tap_or_the_barrier():
    f = jax.jit(lambda x: callout.watch(x, "test_gpu_taps.stop", stop=True))
    f(jnp.array([1.0, np.nan]))
    with pytest.raises(callout.TapError, match="1 NaN and 0 infinite elements") as caught:
        callout.barrier_wait()
    assert isinstance(caught.value, callout.NonFiniteError)
    seen = callout.stats()["watches"]["test_gpu_taps.stop"]
    assert (seen["bad_calls"], seen["first"]["index"]) == (1, (1,))
    callout.barrier_wait()


def test_statistics_know_of_records_under_way():
    f = jax.jit(lambda x: callout.tap(callout.sinks.Null(), x))
    f(1.0)
    callout.barrier_wait()
    (queue,) = [each for each in callout.stats()["queues"] if each["worker"] == "native" and each["device"] == 0]
    assert (queue["on_device"], queue["pinned_bytes"]) == (0, 0)
    assert "on device" in str(callout.stats())


def test_rings_end_with_their_threads():
    f = jax.jit(lambda x: callout.tap(callout.sinks.Null(), x))
    f(1.0)
    callout.barrier_wait()
    _ext.park_delivery_threads()
    assert callout.stats()["live"]["threads"] == 0
    f(2.0)
    callout.barrier_wait()
