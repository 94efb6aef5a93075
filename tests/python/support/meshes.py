# SPDX-License-Identifier: Apache-2.0
"""Arrays over several devices."""

import jax
import jax.numpy as jnp
import numpy as np
import platforms
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def mesh_of(count, reverse=False):
    devices = platforms.devices(count)
    return Mesh(np.array(devices[::-1] if reverse else devices), ("d",))


def sharded(count=4, reverse=False, size=8):
    return jax.device_put(jnp.arange(float(size)), NamedSharding(mesh_of(count, reverse), P("d")))


def grid():
    """Returns a 4x4 array over a reversed 2-D mesh."""
    mesh = Mesh(np.array(platforms.devices(4)[::-1]).reshape(2, 2), ("a", "b"))
    return jax.device_put(jnp.arange(16.0).reshape(4, 4), NamedSharding(mesh, P("a", "b")))
