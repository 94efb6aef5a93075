# SPDX-License-Identifier: Apache-2.0
"""callout.options: settings of a callback, and which of them it has when there are several."""

import functools

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def test_options_zero_copy_args_and_name():
    seen = []

    def callback(x):
        seen.append((type(x), x.flags.writeable, x.flags.owndata))
        return x + np.float32(1)

    f = jax.jit(lambda x: callout.pure_callback(callout.options(callback, zero_copy=True), like(x), x))
    np.testing.assert_array_equal(f(jnp.zeros(4)), np.ones(4))
    assert seen == [(np.ndarray, False, False)]
    g = jax.jit(
        lambda x: callout.pure_callback(callout.options(lambda v: seen.append(type(v)) or v, args="jax"), like(x), x)
    )
    g(jnp.zeros(4))
    assert issubclass(seen[1], jax.Array)
    named = jax.jit(lambda x: callout.pure_callback(callout.options(lambda x: x * 2, name="my name"), F32, x))
    named(1.0)
    assert callout.stats()["callbacks"]["my name"]["calls"] == 1


def test_options_of_options_are_added_and_the_last_ones_win():
    kinds = []

    def look(v):
        kinds.append(type(v))
        return v

    inner = callout.options(look, args="jax", name="inner")
    outer = callout.options(inner, name="outer of two", numpy_only=True)
    assert (outer.options.args, outer.options.name, outer.options.numpy_only) == ("jax", "outer of two", True)
    assert (
        callout.options(outer, args="numpy", numpy_only=False, zero_copy=True).options
        == callout.options(look, name="outer of two", zero_copy=True).options
    )
    with pytest.raises(ValueError, match="zero_copy=True needs"):
        callout.options(inner, zero_copy=True)
    jax.jit(lambda x: callout.pure_callback(outer, F32, x))(1.0).block_until_ready()
    assert callout.stats()["callbacks"]["outer of two"]["calls"] == 1
    assert issubclass(kinds[0], jax.Array)


class Looker:
    def __init__(self):
        self.kinds = []

    def look(self, v, w=None):
        self.kinds.append((type(self), type(v), v is w))
        return v

    look = callout.options(look, zero_copy=True, name="Looker")


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_methods_and_partial_functions_keep_their_options(run):
    looker, rest = Looker(), []
    x = jnp.ones(4)
    partial = functools.partial(
        callout.options(lambda n, v: rest.append((n, isinstance(v, jax.Array))) or v, args="jax"), 3
    )
    run(lambda x: callout.pure_callback(looker.look, like(x), x))(x)
    run(lambda x: callout.pure_callback(partial, like(x), x))(x)
    run(lambda x: callout.pure_callback(callout.options(partial, name="more"), like(x), x))(x)
    assert looker.kinds == [(Looker, np.ndarray, False)]
    assert looker.look.options.zero_copy
    assert Looker.look is Looker.__dict__["look"]
    assert rest == [(3, True)] * 2
