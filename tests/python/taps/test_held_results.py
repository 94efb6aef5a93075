# SPDX-License-Identifier: Apache-2.0
"""Tests programs and loop steps with one result for CUDA: the result and the source of callbacks' values stay apart.

XLA:GPU's compiler crashes if they are one value. These tests read the programs' texts; on the plugin, the programs
compile.
"""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax

F32 = jax.ShapeDtypeStruct((6,), jnp.float32)
BARRIER = "stablehlo.optimization_barrier"


def tap(*values):
    callout.tap(lambda _: None, values)


def debug(*values):
    callout.debug_callback(lambda *_: None, *values)


def io(*values):
    callout.io_callback(lambda *_: None, None, *values)


def foreign(*values):
    callout.ffi.ffi_call("callout_test_held", (), has_side_effect=True)(*values)


def part(callback, x):
    y = jnp.sin(x)
    callback((x > y).astype(jnp.int32) == 1, x + y)
    return y


def in_a_loop(callback, x):
    return lax.while_loop(lambda x: x[0] > 0.5, lambda x: part(callback, x), x) + 1


def text(f, *platforms):
    return jax.jit(f).trace(F32).lower(lowering_platforms=platforms or ("cuda",)).as_text()


@pytest.mark.parametrize("callback", [tap, debug, io, foreign])
def test_only_results_are_held(callback):
    assert text(lambda x: part(callback, x)).count(BARRIER) == 1
    assert text(lambda x: in_a_loop(callback, x)).count(BARRIER) == 2
    ends = text(lambda x: part(callback, x)).splitlines()
    assert text(lambda x: part(callback, x), "cpu", "cuda").count(BARRIER) == 1
    (end,) = (i for i, line in enumerate(ends) if BARRIER in line)
    assert ends[end + 1].split() == ["return", ends[end].split()[0], ":", "tensor<6xf32>"]


@pytest.mark.parametrize("callback", [tap, debug, io])
def test_others_are_not(callback):
    assert BARRIER not in text(lambda x: (part(callback, x), x + 1))
    assert BARRIER not in text(lambda x: part(callback, x), "cpu")
    assert BARRIER not in text(lambda x: (callback(x), x)[1])  # an argument is not computed
    assert BARRIER not in text(jnp.sin)


def test_the_switch_takes_it_away():
    callout.config.patch_tapped_values = False
    try:
        assert BARRIER not in text(lambda x: part(debug, x))
    finally:
        callout.config.patch_tapped_values = True


@pytest.mark.parametrize("callback", [tap, debug, io])
def test_such_programs_run(callback):
    x = jnp.arange(1, 7, dtype=jnp.float32)
    np.testing.assert_allclose(platforms.awaited(jax.jit(lambda x: part(callback, x))(x)), np.sin(x), rtol=1e-5)
    assert platforms.awaited(jax.jit(lambda x: in_a_loop(callback, x))(x)).shape == (6,)
