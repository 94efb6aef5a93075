# SPDX-License-Identifier: Apache-2.0
"""Tests a thread that makes eager taps in a loop, and holds the GIL that their delivery needs."""

import time

import callout
import jax.numpy as jnp
import pytest
from switching import switching_after


@pytest.fixture
def no_switches():
    """Disables the interpreter's switching: a thread gets the GIL only when another one releases it."""
    with switching_after(1000):
        yield


def test_records_are_delivered_between_eager_taps(no_switches):
    x = jnp.zeros(4)
    heard = []
    seldom = callout.options(lambda _: None, name="seldom")
    callout.tap(seldom, x, every=1 << 40)
    callout.barrier_wait()
    callout.tap(lambda _: heard.append(1), x)
    end = time.monotonic() + 30
    while not heard and time.monotonic() < end:
        callout.tap(seldom, x, every=1 << 40)  # sends none, and releases the GIL for no other reason
    assert heard == [1]


def test_functions_that_tap_are_delivered(no_switches):
    x = jnp.zeros(4)
    heard = []

    def again(value):
        heard.append("outer")
        callout.tap(lambda _: heard.append("inner"), value)

    for _ in range(100):
        callout.tap(again, x)
    callout.barrier_wait()
    callout.barrier_wait()
    assert heard.count("outer") == heard.count("inner") == 100
