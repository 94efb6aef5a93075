# SPDX-License-Identifier: Apache-2.0
"""Tests programs that use Equinox: `callout.error_if` instead of its own, and modules in which NaN begins."""

import contextlib

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from located import found

equinox = pytest.importorskip("equinox")


class Root(equinox.Module):
    weight: jax.Array

    def __call__(self, x):
        x = equinox.error_if(x, x < 0, "negative")
        return self.weight * jnp.sqrt(x)


@pytest.fixture
def replaced(monkeypatch):
    monkeypatch.setattr(equinox, "error_if", callout.error_if)


def failure(f, *args):
    with pytest.raises(callout.CheckError) as caught:
        platforms.ended(f(*args))
    with contextlib.suppress(callout.CheckError):
        jax.effects_barrier()
    return str(caught.value).partition("check failed: ")[2].partition(";")[0]


@pytest.mark.parametrize(
    "transform",
    [
        equinox.filter_jit,
        lambda f: equinox.filter_jit(equinox.filter_value_and_grad(lambda model, x: f(model, x).sum())),
        lambda f: equinox.filter_jit(equinox.filter_checkpoint(f)),
        lambda f: jax.jit(f),
    ],
    ids=["filter_jit", "filter_grad", "filter_checkpoint", "jit"],
)
def test_checks_take_the_place_of_equinoxs_own(transform, replaced):
    f = transform(lambda model, x: model(x))
    model, good, bad = Root(jnp.float32(2)), jnp.array([1.0, 4.0]), jnp.array([1.0, -4.0])
    jax.block_until_ready(f(model, good))
    assert {failure(f, model, bad) for _ in range(5)} == {"negative (index [1], device 0"}
    jax.block_until_ready(f(model, good))


def test_lanes_of_filter_vmap_are_reported(replaced):
    f = equinox.filter_jit(equinox.filter_vmap(lambda model, x: model(x), in_axes=(None, 0)))
    x = jnp.arange(1.0, 7.0).reshape(3, 2)
    model = Root(jnp.float32(2))
    np.testing.assert_allclose(f(model, x), 2 * np.sqrt(x), rtol=1e-6)
    assert failure(f, model, x.at[2, 0].set(-1)) == "negative (lane 2, index [0], device 0"


class Logarithm(equinox.Module):
    weight: jax.Array

    def __call__(self, x):
        return jnp.log(self.weight * x)


class Net(equinox.Module):
    inner: equinox.nn.MLP
    last: Logarithm

    def __call__(self, x):
        return self.last(jnp.exp(self.inner(x))).sum()


@pytest.mark.parametrize(
    ("activation", "weight", "place"),
    [
        (jnp.tanh, 1.0, None),
        (jnp.tanh, -1.0, ", in Net/Logarithm; "),
        (lambda x: jnp.log(-jnp.abs(x) - 1), 1.0, ", in eqx.nn.MLP (Net/MLP); "),
    ],
    ids=["none", "own", "library"],
)
def test_the_module_in_which_nan_begins_is_reported(activation, weight, place):
    inner = equinox.nn.MLP(2, 2, 4, 1, activation=activation, key=jax.random.key(0))
    net = Net(inner, Logarithm(jnp.float32(weight)))

    def loss(net, x):
        return equinox.filter_value_and_grad(lambda net, x: net(x))(net, x)

    texts, _ = found(equinox.filter_jit(callout.locate_nans(loss, granularity="module")), net, jnp.ones(2))
    assert [place in text for text in texts if "forward" in text] == [True] * (place is not None)
