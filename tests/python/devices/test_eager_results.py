# SPDX-License-Identifier: Apache-2.0
"""Tests the placement of the results of eager calls whose arguments are on several devices."""

import re

import callout
import callout.host_callback
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from meshes import grid, mesh_of, sharded

PLACED = {
    "sharded": sharded,
    "part of the devices, reversed": lambda: sharded(2, reverse=True),
    "replicated": lambda: jax.device_put(jnp.arange(8.0), NamedSharding(mesh_of(4), P())),
    "a grid": grid,
    "one device": lambda: jax.device_put(jnp.arange(8.0), platforms.devices(3)[2]),
}


@pytest.mark.collectives
@pytest.mark.parametrize("make", PLACED.values(), ids=PLACED)
@pytest.mark.parametrize("kind", ["pure", "io", "ordered io", "host_callback"])
def test_eager_results_are_where_those_of_a_jit_are(make, kind):
    x = make()
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)

    def f(x):
        if kind == "host_callback":
            return callout.host_callback.call(lambda v: v + 1, x, result_shape=result)
        if kind == "pure":
            return callout.pure_callback(lambda v: v + 1, result, x)
        return callout.io_callback(lambda v: v + 1, result, x, ordered=kind.startswith("ordered"))

    out = f(x)
    assert out.sharding.is_equivalent_to(jax.jit(f)(x).sharding, x.ndim)
    assert out.committed
    np.testing.assert_array_equal(x + out, 2 * np.asarray(x) + 1)


@pytest.mark.collectives
def test_eager_results_of_gathered_values_are_on_all_devices():
    x, shape = sharded(), jax.ShapeDtypeStruct((8,), jnp.float32)
    gathered = jax.pure_callback(lambda v: v, shape, x)  # JAX's result has a sharding without a mesh
    out = callout.pure_callback(lambda v: v + 1, shape, gathered)
    np.testing.assert_array_equal(x + out, 2 * np.arange(8.0) + 1)


@pytest.mark.devices(3)
@pytest.mark.parametrize("kind", ["pure", "io", "ordered io", "host_callback"])
def test_arguments_on_different_devices_are_rejected_before_the_call(kind):
    calls = []

    def add(values):
        calls.append(values)
        return values[0] + values[1]

    def f(x, y):
        if kind == "host_callback":
            return callout.host_callback.call(add, (x, y), result_shape=y)
        if kind == "pure":
            return callout.pure_callback(add, jax.ShapeDtypeStruct((8,), jnp.float32), (x, y))
        return callout.io_callback(add, jax.ShapeDtypeStruct((8,), jnp.float32), (x, y), ordered=kind == "ordered io")

    free = jnp.arange(8.0)
    first, second = (jax.device_put(free, device) for device in platforms.devices(3)[1:])
    text = re.escape(
        "are committed to different devices, [1] and [2], which no program takes; jax.device_put moves them"
    )
    with pytest.raises(ValueError, match=text):
        f(first, second)
    with pytest.raises(ValueError, match=r"different devices"):
        f(jax.device_put(free, NamedSharding(mesh_of(2), P())), first)
    assert calls == []
    for x, y in ((free, first), (first, free), (first, first)):
        assert f(x, y).devices() == first.devices()


def test_calls_without_results_accept_arguments_on_different_devices(received):
    first, second = (jax.device_put(jnp.float32(i), jax.devices()[-i]) for i in range(2))
    callout.debug_callback(lambda x, y: received.append(float(x + y)), first, second)
    callout.tap(lambda pair: received.append(float(sum(pair))), (first, second))
    callout.barrier_wait()
    assert received == [1, 1]
