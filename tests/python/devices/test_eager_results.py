# SPDX-License-Identifier: Apache-2.0
"""Where the results of eager calls lie whose arguments are on several devices."""

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
def test_eager_results_of_what_jax_gathered_are_on_all_its_devices():
    x, shape = sharded(), jax.ShapeDtypeStruct((8,), jnp.float32)
    gathered = jax.pure_callback(lambda v: v, shape, x)  # its sharding has no mesh
    out = callout.pure_callback(lambda v: v + 1, shape, gathered)
    np.testing.assert_array_equal(x + out, 2 * np.arange(8.0) + 1)
