# SPDX-License-Identifier: Apache-2.0
"""Tests tangents of integers (dtype float0) as values: callbacks get booleans, as with jax.pure_callback."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest

F32 = jax.ShapeDtypeStruct((), jnp.float32)
ZERO = np.zeros((3,), jax.dtypes.float0)
USES = {
    "pure_callback": lambda seen: lambda x: callout.pure_callback(lambda v: (seen.append(v), np.float32(1))[1], F32, x),
    "io_callback": lambda seen: lambda x: callout.io_callback(lambda v: (seen.append(v), np.float32(1))[1], F32, x),
    "debug_callback": lambda seen: lambda x: callout.debug_callback(lambda v: seen.append(v), x),
    "tap": lambda seen: lambda x: (callout.tap(lambda v: seen.append(v), x), 1)[1],
    "local tap": lambda seen: lambda x: (callout.tap(lambda v: seen.append(v), x, sharding="local"), 1)[1],
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("use", USES)
def test_it_arrives_as_booleans(use, jitted):
    seen = []
    f = USES[use](seen)
    jax.block_until_ready((jax.jit(f) if jitted else f)(ZERO))
    jax.effects_barrier()
    callout.barrier_wait()
    (value,) = seen
    assert (value.dtype, value.tolist()) == (np.bool_, [False] * 3)


def test_an_eager_tap_returns_its_value_as_it_was():
    assert callout.tap(lambda v: None, ZERO).dtype == jax.dtypes.float0
    callout.barrier_wait()
