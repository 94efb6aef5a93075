# SPDX-License-Identifier: Apache-2.0
"""callout.options: settings of a callback, and which value applies if there are several."""

import functools
import re
import traceback

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from core_only import has_core

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.mark.parametrize("index", [-1, 1.5, True, "0", 2**63])
def test_a_device_index_is_an_integer_of_at_least_0(index):
    text = rf"^callout\.options: device_index must be an integer of at least 0, got {re.escape(repr(index))}$"
    with pytest.raises(ValueError, match=text):
        callout.options(print, device_index=index)


def test_a_name_is_a_str():
    with pytest.raises(TypeError, match=r"^callout\.options: name must be a str, got b'x'$"):
        callout.options(print, name=b"x")


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
        == callout.options(look, args="numpy", name="outer of two", zero_copy=True).options
    )
    with pytest.raises(ValueError, match="zero_copy=True needs"):
        callout.options(inner, zero_copy=True)
    jax.jit(lambda x: callout.pure_callback(outer, F32, x))(1.0).block_until_ready()
    assert callout.stats()["callbacks"]["outer of two"]["calls"] == 1
    assert issubclass(kinds[0], jax.Array)


@pytest.fixture
def jax_by_default():
    before = callout.config.args
    callout.config.args = "jax"
    yield
    callout.config.args = before


def first_to_five(x):
    return x.at[0].set(5)


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_setting_has_every_callback_get_jax_arrays(run, jax_by_default):
    x, got = jnp.ones(3), []
    assert run(lambda x: callout.pure_callback(first_to_five, like(x), x))(x).tolist() == [5, 1, 1]
    assert run(lambda x: callout.io_callback(first_to_five, like(x), x))(x).tolist() == [5, 1, 1]
    run(lambda x: callout.tap(lambda v: got.append(first_to_five(v).tolist()), x))(x)
    run(lambda x: callout.debug_callback(lambda v: got.append(first_to_five(v).tolist()), x))(x)
    jax.effects_barrier()
    callout.barrier_wait()
    assert got == [[5, 1, 1]] * 2
    callout.register("test_options.first_to_five", first_to_five)
    try:
        assert run(lambda x: callout.pure_callback("test_options.first_to_five", like(x), x))(x).tolist() == [5, 1, 1]
    finally:
        callout.unregister("test_options.first_to_five")


@pytest.mark.parametrize("told", [{"args": "numpy"}, {"zero_copy": True}, {"numpy_only": True}, {"memory": "device"}])
def test_options_of_a_callback_override_the_setting(told, jax_by_default):
    kinds = []
    look = callout.options(lambda v: kinds.append(isinstance(v, jax.Array)) or v, **told)
    jax.jit(lambda x: callout.pure_callback(look, like(x), x))(jnp.ones(3)).block_until_ready()
    assert kinds == [False]


def test_programs_keep_the_setting_that_they_were_traced_with():
    kinds, before = [], callout.config.args

    def look(v):
        kinds.append(isinstance(v, jax.Array))
        return v

    def program():
        return jax.jit(lambda x: callout.pure_callback(look, like(x), x))

    first, second = program(), program()
    x = jnp.ones(3)
    first(x).block_until_ready()
    try:
        callout.config.args = "jax"
        for f in (second, first):
            f(x).block_until_ready()
    finally:
        callout.config.args = before
    second(x).block_until_ready()
    assert kinds == [False, True, False, True]


HINT = (
    r"callbacks get NumPy arrays, which have no \.at: callout\.options\(fn, args=\"jax\"\) has the callback get "
    r'jax\.Arrays, callout\.config\.args = "jax" has all of them'
)


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_callback_that_needs_jax_arrays_gets_a_hint(run):
    with pytest.raises((AttributeError, jax.errors.JaxRuntimeError)) as caught:
        jax.block_until_ready(run(lambda x: callout.pure_callback(first_to_five, like(x), x))(jnp.ones(3)))
    assert re.search(HINT, "".join(traceback.format_exception(caught.value)))
    by_jax = platforms.BY_FALLBACK or not has_core()  # JAX's callbacks put other text in front
    if isinstance(caught.value, jax.errors.JaxRuntimeError) and not by_jax:
        assert re.search(rf"AttributeError: .* has no attribute 'at' \({HINT}\)", str(caught.value).splitlines()[0])
    callout.tap(first_to_five, jnp.ones(3))
    with pytest.raises(callout.TapError, match=HINT):
        callout.barrier_wait()


def test_other_attributes_that_are_missing_are_none_of_arrays():
    def misspelt(x):
        return x.shpe

    with pytest.raises(AttributeError) as caught:
        callout.pure_callback(misspelt, F32, jnp.float32(1))
    assert not hasattr(caught.value, "__notes__")


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
