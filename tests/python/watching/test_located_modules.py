# SPDX-License-Identifier: Apache-2.0
"""Tests `callout.locate_nans(granularity="module")`, which reports the module in which NaN begins."""

import functools

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from located import found


class Scaled:
    """A module without named scopes, like those of Flax NNX and Equinox."""

    def __init__(self, scale, bad=False):
        self.scale, self.bad = scale, bad

    def __call__(self, x):
        logs = jnp.log(x * self.scale)
        return logs if self.bad else jnp.where(x > 0, logs, 1.0)


class Net:
    def __init__(self, layers):
        self.layers = layers

    def __call__(self, x):
        first, second = self.layers
        return second(first(x))


def test_modules_without_scopes_are_known_by_their_calls():
    def loss(net, x):
        with jax.named_scope("loss"):
            return net(x).sum()

    x = np.array([1, -2], np.float32)
    masked, bad = Scaled(1.0), Scaled(-1.0, bad=True)
    for layers, texts in (((masked, masked), 0), ((masked, bad), 1), ((bad, masked), 1)):
        for f in (loss, jax.grad(loss, argnums=1)):
            located = callout.locate_nans(functools.partial(f, Net(layers)), granularity="module")
            found_texts = [text for text in found(jax.jit(located), x)[0] if "forward" in text]
            assert len(found_texts) == texts
            assert all(", in loss (Net/Scaled); f32[2] at " in text for text in found_texts)
    # Both layers have one class, and are called in one line: each is a module of its own.
    (text,), _ = found(jax.jit(callout.locate_nans(Net((masked, bad)), granularity="module")), x)
    assert text.split("; ")[-1] == "inputs: f32[2] 1.0"


class Scanned(Net):
    """A module with a scan inside of its call."""

    def __call__(self, x):
        return jax.lax.scan(lambda carry, _: (super(Scanned, self).__call__(carry), None), x, length=2)[0]


class Around:
    def __init__(self, inner):
        self.inner = jax.jit(inner)

    def __call__(self, x):
        return self.inner(x)


def test_modules_are_known_in_functions_that_jax_traces_separately():
    masked, bad = Scaled(1.0), Scaled(-1.0, bad=True)
    x = np.array([1, -2], np.float32)
    for net, name in (
        (jax.jit(Net((masked, bad))), "Net/Scaled"),
        (jax.checkpoint(Net((masked, bad))), "Net/Scaled"),
        (Net((masked, jax.jit(bad))), "Net/Scaled"),
        (Scanned((masked, bad)), "Scanned/Net/Scaled"),
        (Around(Around(bad)), "Around/Around/Scaled"),
    ):
        texts, _ = found(jax.jit(callout.locate_nans(lambda x, net=net: net(x), granularity="module")), x)
        assert texts
        assert all(f", in {name}; f32[2] at " in text for text in texts)


def test_modules_that_are_checkpointed_in_one_line_are_two():
    bad, masked = Scaled(1.0, bad=True), Scaled(1.0)

    def f(x):
        return jax.checkpoint(masked)(jax.checkpoint(bad)(x))

    (text,), (_, second) = found(jax.jit(callout.locate_nans(f, granularity="module")), np.array([1, -2], np.float32))
    assert second == 1  # masked
    assert ", in Scaled; f32[2] at [1]" in text


@jax.custom_jvp
def log(x):
    return jnp.log(x)


log.defjvp(lambda primals, tangents: (log(*primals), tangents[0] / primals[0]))


class Logarithm:
    def __call__(self, x):
        return log(x)


def test_modules_are_known_once_under_checkpoint_with_custom_rules():
    f = jax.grad(lambda x: jax.checkpoint(Net((Logarithm(), Scaled(1.0))))(x).sum())
    texts, _ = found(jax.jit(callout.locate_nans(f, granularity="module")), np.array([1, -2], np.float32))
    assert ", in Net/Logarithm; " in texts[0]


WRAPPER = """
class Wrapper:
    def __init__(self, call):
        self.call = call

    def __call__(self, x):
        return self.call(x)
"""


@pytest.mark.parametrize("file", ["flax/nnx/transforms/compilation.py", "equinox/_module/_prebuilt.py"])
def test_wrappers_of_module_calls_are_no_modules(file):
    names = {}
    exec(compile(WRAPPER, f"/packages/{file}", "exec"), names)
    wrapped = names["Wrapper"]
    net = Net((wrapped(Scaled(1.0, bad=True)), wrapped(Scaled(1.0))))
    (text,), _ = found(jax.jit(callout.locate_nans(wrapped(net), granularity="module")), np.array([1, -2], np.float32))
    assert ", in Net/Scaled; " in text
