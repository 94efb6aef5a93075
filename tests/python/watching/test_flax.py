# SPDX-License-Identifier: Apache-2.0
"""Tests modules of Flax Linen and Flax NNX in which NaN begins, and checks inside of them."""

import functools

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from located import found

flax = pytest.importorskip("flax")
from flax import linen, nnx  # noqa: E402


class LinenBlock(linen.Module):
    bad: bool = False

    @linen.compact
    def __call__(self, x):
        x = linen.LayerNorm()(linen.Dense(4)(x))
        if self.bad:
            x = jnp.log(x - 100)  # in Linen
        return linen.Dense(4)(x)


class LinenNet(linen.Module):
    block: type = LinenBlock

    @linen.compact
    def __call__(self, x):
        x = self.block(name="first")(x)
        x = self.block(bad=True, name="second")(x)
        return self.block(name="third")(x)


def linen_loss(net, weights, x):
    return net.apply(weights, x).sum()


X = np.ones((3, 4), np.float32)


@pytest.mark.parametrize("block", [LinenBlock, linen.remat(LinenBlock)], ids=["plain", "remat"])
@pytest.mark.parametrize("place", ["forward", "grad inside", "grad outside"])
def test_modules_of_linen_are_reported_by_name(block, place):
    net = LinenNet(block)
    weights = net.init(jax.random.key(0), X)
    loss = functools.partial(linen_loss, net)
    locate = functools.partial(callout.locate_nans, granularity="module")
    program = {
        "forward": lambda: locate(loss),
        "grad inside": lambda: locate(jax.value_and_grad(loss)),
        "grad outside": lambda: jax.value_and_grad(locate(loss)),
    }[place]()
    texts = found(jax.jit(program), weights, X)[0]
    assert "# in Linen" in texts[0]
    assert "forward, in LinenNet/" in texts[0]
    assert "second; f32[3,4] at [0,0]" in texts[0]
    assert all("in LinenNet/" in text and "second; " in text for text in texts)


def test_layers_of_linen_have_the_line_of_their_call():
    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.Dense(4)(x)
            return linen.Dense(2)(x)  # the second

    net = Net()
    weights = net.init(jax.random.key(0), X)
    located = jax.jit(callout.locate_nans(functools.partial(linen_loss, net)))
    assert found(located, weights, X)[0] == []
    weights["params"]["Dense_0"]["kernel"] = jnp.ones((4, 4))
    weights["params"]["Dense_1"]["kernel"] = jnp.full((4, 2), 3e38)
    (text, *_), _ = found(located, weights, X)
    assert "infinity at" in text
    assert "# the second" in text
    assert ", in Net/Dense_1; f32[3,2] at [0,0]" in text


class Block(nnx.Module):
    def __init__(self, bad, rngs):
        self.layer = nnx.Linear(4, 4, rngs=rngs)
        self.norm = nnx.LayerNorm(4, rngs=rngs)
        self.bad = bad

    def __call__(self, x):
        x = self.norm(self.layer(x))
        return jnp.log(x - 100) if self.bad else x  # in NNX


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = Block(False, rngs), Block(True, rngs)

    def __call__(self, x):
        return self.second(self.first(x))


def nnx_loss(net, x):
    return net(x).sum()


@pytest.mark.parametrize(
    "transform",
    [
        lambda locate: nnx.jit(locate(nnx_loss)),
        lambda locate: nnx.jit(locate(nnx.jit(nnx_loss))),
        lambda locate: nnx.jit(locate(nnx.value_and_grad(nnx_loss))),
        lambda locate: nnx.jit(nnx.grad(locate(nnx_loss))),
    ],
    ids=["jit", "jit inside", "grad inside", "grad outside"],
)
def test_modules_of_nnx_are_reported_by_class(transform):
    net = Net(nnx.Rngs(0))
    program = transform(functools.partial(callout.locate_nans, granularity="module"))
    texts = found(program, net, X)[0]
    assert len(texts) == 1
    assert "# in NNX" in texts[0]
    assert "forward, in Net/Block; f32[3,4] at [0,0]" in texts[0]


def test_checks_stop_the_training_of_a_module_of_nnx():
    def loss(net, x):
        y = net.first(x)
        return callout.error_if(y, jnp.abs(x) > 9, "input {value} in row {index}").sum()

    net = Net(nnx.Rngs(0))
    step = nnx.jit(nnx.value_and_grad(loss))
    jax.block_until_ready(step(net, X)[0])
    with callout.reraise(), pytest.raises(callout.CheckError, match=r"check failed: input .* in row \[1 2\]"):
        platforms.ended(step(net, jnp.asarray(X).at[1, 2].set(10))[0])
