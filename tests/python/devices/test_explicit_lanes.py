# SPDX-License-Identifier: Apache-2.0
"""Tests `vmap` over an axis that is sharded over explicit axes of a mesh, where the sharding is part of the type."""

import itertools

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax.sharding import AxisType, NamedSharding

pytestmark = pytest.mark.collectives

SPREAD = {"lanes": jax.P("d"), "elements": jax.P(None, "d")}


def _lanes(spread):
    """Returns eight lanes of four numbers; four devices have two lanes each, or one number of each lane."""
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,), devices=platforms.devices(4))
    values = np.arange(32, dtype=np.float32).reshape(8, 4)
    return jax.device_put(values, NamedSharding(mesh, SPREAD[spread]))


def _spec(value):
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _add_one(seen):
    def add(value):
        seen.append(value.copy())
        return value + 1

    return add


METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")
_USES = {
    "tap": lambda seen, v: callout.tap(seen.append, v) + 1,
    "ordered tap": lambda seen, v: callout.tap(seen.append, v, ordered=True) + 1,
    "error_if": lambda seen, v: callout.error_if(v, jnp.any(v < 0), "negative") + 1,
    "watch": lambda seen, v: callout.watch(v, "explicit lanes") + 1,
    "debug_callback": lambda seen, v: (callout.debug_callback(lambda value: seen.append(value.copy()), v), v + 1)[1],
    "io_callback": lambda seen, v: callout.io_callback(_add_one(seen), _spec(v), v) - v + v,
    **{
        method: lambda seen, v, method=method: (
            callout.pure_callback(_add_one(seen), _spec(v), v, vmap_method=method) - v + v
        )
        for method in METHODS
    },
}
_AROUND = {
    "nothing": lambda f: f,
    "while": lambda f: lambda x: jax.lax.while_loop(lambda v: jnp.sum(v) < 60, lambda v: f(v) * 2, x),
    "cond": lambda f: lambda x: jax.lax.cond(jnp.sum(x) < 60, f, lambda v: v, x),
    "scan": lambda f: lambda x: jax.lax.scan(lambda v, _: (f(v), None), x, length=2)[0],
    "cond in while": lambda f: (
        lambda x: jax.lax.while_loop(
            lambda v: jnp.sum(v) < 100, lambda v: jax.lax.cond(jnp.sum(v) < 60, f, lambda w: w, v) * 2, x
        )
    ),
}


def _run(around, use, values):
    seen = []
    y = jax.jit(jax.vmap(_AROUND[around](lambda v: _USES[use](seen, v))))(values)
    y.block_until_ready()
    callout.barrier_wait()
    return y, seen


def _is_jax_refusing(spread, use, around):  # JAX rejects it without a callback, too
    return spread == "elements" and "cond" in around and use in METHODS


_CASES = [case for case in itertools.product(SPREAD, _USES, _AROUND) if not _is_jax_refusing(*case)]


@pytest.mark.parametrize(("spread", "use", "around"), _CASES)
def test_as_on_one_device(spread, use, around):
    lanes = _lanes(spread)
    y, seen = _run(around, use, lanes)
    expected, seen_alone = _run(around, use, np.asarray(lanes))
    np.testing.assert_array_equal(y, expected)
    assert jax.typeof(y).sharding.spec == jax.typeof(lanes).sharding.spec
    assert sorted(map(np.ndarray.tolist, seen)) == sorted(map(np.ndarray.tolist, seen_alone))
