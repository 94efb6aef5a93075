# SPDX-License-Identifier: Apache-2.0
"""Tests unreduced values, of which each device has a summand, such as gradients of replicated weights."""

import callout
import jax
import jax.numpy as jnp
import platforms
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

pytestmark = pytest.mark.collectives


@pytest.fixture
def mesh():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,), devices=platforms.devices(4))
    with jax.set_mesh(mesh):
        yield mesh


def product(use):
    """Returns a sum over devices on which `use` is called before the reduction."""

    def run(a, b):
        return jax.sharding.reshard(use(jnp.dot(a, b, out_sharding=P(unreduced={"d"}))), P())

    rows, columns = (jax.device_put(jnp.ones((8, 8)), spec) for spec in (P(None, "d"), P("d", None)))
    return jax.jit(run)(rows, columns)


REFUSED = {
    "tap": lambda v: callout.tap(print, v),
    "watch": lambda v: callout.watch(v, "unreduced"),
    "debug_callback": lambda v: (callout.debug_callback(print, v), v)[1],
}


@pytest.mark.parametrize("use", REFUSED)
def test_observers_of_unreduced_values_are_rejected(mesh, use):
    with pytest.raises(NotImplementedError, match=r"is unreduced over the axes \['d'\].*jax\.sharding\.reshard"):
        product(REFUSED[use])


def test_a_reshard_before_helps(mesh):
    seen = []
    product(lambda v: callout.tap(seen.append, jax.sharding.reshard(v, P())))
    callout.barrier_wait(60)
    assert [value.sum() for value in seen] == [512]


def test_locate_nans_leaves_it_out(mesh):
    x = jax.device_put(jnp.ones((8, 8)), P("d", None))
    weights = jax.device_put(jnp.ones((8, 8)), P(reduced={"d"}))
    loss = callout.locate_nans(lambda w: jnp.dot(x, w, out_sharding=P("d", None)).sum())
    assert jax.jit(lambda w: jax.sharding.reshard(jax.grad(loss)(w), P()))(weights).sum() == 512
