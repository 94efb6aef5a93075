# SPDX-License-Identifier: Apache-2.0
"""Tests checks and locate_nans of exported programs in the command: without Python and without a binding."""

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
    return lambda f, *shapes: command.Program(tmp_path, jax.jit(f), *shapes)


def test_a_check_that_fails_ends_the_run_with_its_text(program):
    @jax.vmap
    def root(x):
        x = callout.error_if(x, x < 0, "the root of {value:.2f}, in lane {lane}")
        return jnp.sqrt(x)

    x = np.array([1.0, 4.0, 9.0], np.float32)
    made = program(root, x)
    assert "--bind" not in made.info().out
    good = made.run(x)
    assert good.code == 0, good.err
    np.testing.assert_array_equal(good.results[0], [1, 2, 3])
    bad = made.run(np.array([1.0, 4.0, -2.5], np.float32))
    assert bad.code != 0
    assert "check failed: the root of -2.50, in lane 2 (lane 2, device 0; " in bad.err
    assert f"{__file__}:" in bad.err
    assert bad.results == []


def test_a_check_that_warns_is_logged_and_the_run_continues(program):
    def count(x):
        return lax.fori_loop(0, 4, lambda i, x: callout.warn_if(x + 1, x > 1, "{value} in step {step}", step=i), x)

    done = program(count, np.int32(0)).run(np.int32(0))
    assert done.code == 0, done.err
    assert done.results[0] == 4
    assert "check failed: 3 in step 2 (" in done.err


def logarithms(x):
    return lax.scan(lambda carry, row: (carry, jnp.log(row)), 0.0, x)[1]  # in the host


def test_where_nan_begins_is_logged_with_line_and_step(program):
    x = np.ones((3, 2), np.float32)
    made = program(callout.locate_nans(logarithms), x)
    good = made.run(x)
    assert good.code == 0, good.err
    assert "locate_nans" not in good.err
    x[2, 1] = -4
    bad = made.run(x)
    assert bad.code == 0, bad.err
    assert np.isnan(bad.results[0][2, 1])
    assert bad.err.count("locate_nans: NaN at ") == 1
    assert "# in the host`; log, forward; f32[2] at [1], step 2, device 0; inputs: f32[2] -4.0" in bad.err


def test_stop_ends_the_run_where_nan_begins(program):
    x = -np.ones((1, 2), np.float32)
    done = program(callout.locate_nans(logarithms, stop=True), x).run(x)
    assert done.code != 0
    assert "locate_nans: NaN at " in done.err
    assert "# in the host`" in done.err
    assert done.results == []
