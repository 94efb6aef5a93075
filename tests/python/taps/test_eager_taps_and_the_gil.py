# SPDX-License-Identifier: Apache-2.0
"""Who makes taps outside of programs, one behind another, holds the GIL that their delivery needs."""

import time

import callout
import jax.numpy as jnp
import pytest
from switching import switching_after


@pytest.fixture
def no_switches():
    """The interpreter takes the GIL from no thread: it is had when another one lets go of it."""
    with switching_after(1000):
        yield


def test_delivery_comes_between_two_taps(no_switches):
    x = jnp.zeros(4)
    heard = []
    seldom = callout.options(lambda _: None, name="seldom")
    callout.tap(seldom, x, every=1 << 40)
    callout.barrier_wait()
    callout.tap(lambda _: heard.append(1), x)
    end = time.monotonic() + 30
    while not heard and time.monotonic() < end:
        callout.tap(seldom, x, every=1 << 40)  # none is sent, and none lets go of the GIL for anything else
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
