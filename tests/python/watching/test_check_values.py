# SPDX-License-Identifier: Apache-2.0
"""Tests the value that `{value}` shows in the texts of checks."""

import contextlib
import logging

import callout
import jax
import numpy as np
import platforms
import pytest


def failure(f, *args):
    """Returns the text of the CheckError of a call."""
    with pytest.raises(callout.CheckError) as caught:
        platforms.ended(f(*args))
    with contextlib.suppress(callout.CheckError):
        jax.effects_barrier()
    text = str(caught.value)
    return text[text.index("check failed: ") :].splitlines()[0]


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("check", [callout.error_if, callout.warn_if])
def test_the_checked_value_is_the_value_beside_named_ones(check, jitted, caplog):
    def f(x, t):
        return check(x, x > 50, "x is {value} at t={t} of {0}", 3, t=t)

    run = jax.jit(f) if jitted else f
    if check is callout.error_if:
        text = failure(run, 99.0, 0.5)
    else:
        with caplog.at_level(logging.WARNING, "callout"):
            jax.block_until_ready(run(99.0, 0.5))
            callout.barrier_wait()
        text = caplog.records[0].getMessage()
    assert text.startswith("check failed: x is 99.0 at t=0.5 of 3 (")


def test_the_value_of_a_batched_text_is_the_checked_lane():
    f = jax.jit(jax.vmap(lambda x, t: callout.error_if(x, x > 50, "{value} at t={t} in {lane}", t=t)))
    text = failure(f, np.array([1.0, 99.0], np.float32), np.array([0.25, 0.5], np.float32))
    assert text.startswith("check failed: 99.0 at t=0.5 in 1 (")


def test_unnamed_values_without_a_field_are_the_value():
    one = jax.jit(lambda x, t: callout.error_if(x, x > 50, "t is {value} of {n}", t, n=7))
    assert failure(one, 99.0, 0.5).startswith("check failed: t is 0.5 of 7 (")
    two = jax.jit(lambda x, t: callout.error_if(x, x > 50, "{value}", x, t))
    assert failure(two, 99.0, 0.5).startswith("check failed: 0=99.0 1=0.5 (")


def test_the_value_of_a_check_follows_its_text():
    f = jax.jit(lambda x, t: callout.check(x < 50, "x is {value} at t={t}", x, t=t))
    assert failure(f, 99.0, 0.5).startswith("check failed: x is 99.0 at t=0.5 (")
