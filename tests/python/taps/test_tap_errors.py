# SPDX-License-Identifier: Apache-2.0
"""Tests that the barrier raises the errors of a tap's function, and the other errors of the barrier."""

import logging
import threading
import traceback

import callout
import gates
import jax
import jax.numpy as jnp
import pytest
from jax import lax


class MyError(Exception):
    def __init__(self, message, payload=None):
        super().__init__(message)
        self.payload = payload


def test_the_barrier_raises_the_last_error_of_failing_taps(caplog):
    got = []

    def receive(value):
        if value % 3 == 0:
            raise MyError(f"at {value:g}", payload=float(value))
        got.append(float(value))

    f = jax.jit(lambda x: lax.fori_loop(0, 30, lambda i, c: callout.tap(receive, c) + 1, x))
    with caplog.at_level(logging.ERROR, logger="callout"):
        assert float(f(0.0)) == 30
        with pytest.raises(callout.TapError) as info:
            callout.barrier_wait()
    assert info.value.count == 10
    assert isinstance(info.value, MyError)
    assert info.value.__cause__.payload == 27
    assert [e.payload for e in info.value.exceptions.exceptions] == [0, 3, 6, 9, 12, 15, 18, 21]
    assert got == [i for i in range(30) if i % 3]
    assert sum("MyError: at 0" in record.message for record in caplog.records) == 1
    assert len(caplog.records) == 1
    callout.barrier_wait()  # raises nothing


def test_a_failing_tap_through_reraise():
    error = MyError("mine")

    def receive(value):
        raise error

    callout.tap(receive, 1.0)
    with pytest.raises(MyError) as info, callout.reraise():
        callout.barrier_wait()
    assert info.value is error


def test_barrier_in_a_tap_raises():
    callout.tap(lambda _: callout.barrier_wait(), 1.0)
    with pytest.raises(callout.CallbackError, match="inside a tap's function"), callout.reraise():
        callout.barrier_wait()


def test_barrier_timeout_names_outstanding_records():
    release = threading.Event()
    callout.tap(lambda _: release.wait(30), 1.0)
    with pytest.raises(callout.BarrierTimeout, match="1 records of the python queue of device 0"):
        callout.barrier_wait(timeout=0.05)
    assert isinstance(callout.BarrierTimeout("x"), TimeoutError)
    release.set()
    callout.barrier_wait()


def test_barrier_timeout_covers_programs():
    gate = gates.gate()
    out = jax.jit(lambda x: callout.tap(callout.sinks.Null(), gate.in_program(x)))(jnp.float32(1))
    with pytest.raises(callout.BarrierTimeout, match="programs that this thread has dispatched"):
        callout.barrier_wait(timeout=0.05)
    gate.open()
    callout.barrier_wait()
    out.block_until_ready()


def test_an_error_of_taps_has_its_public_name(tmp_path):
    sink = callout.sinks.JsonLines(tmp_path / "x")
    sink.close()
    callout.tap(sink, 1.0)
    with pytest.raises(callout.TapError) as info:
        callout.barrier_wait()
    assert traceback.format_exception_only(info.value)[0].startswith("callout.TapError: 1 tap failed")
