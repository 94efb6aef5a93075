# SPDX-License-Identifier: Apache-2.0
"""Tests the cost of callbacks of single lanes: computation stays batched, and other programs keep their text."""

import re
from collections import Counter

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core as jex_core
from jax.interpreters import batching

W = np.ones((3, 3), np.float32)
XS = jnp.ones((4, 3))
NO_CALLBACKS = lambda x: x  # noqa: E731


def tap(x):
    return callout.tap("lanes.text", x)


def ordered_tap(x):
    return callout.tap("lanes.text", x, ordered=True)


def debug(x):
    callout.debug_callback("lanes.text", x)
    return x


def io(x):
    return callout.io_callback("lanes.text", jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def in_cond(see):
    def branch(x):
        return see(jnp.tanh(see(x @ W)) @ W)

    return lambda x: lax.cond(x.sum() > 1, branch, lambda x: jnp.sin(x @ W), x)


def in_while(see):
    def condition(x):
        return jnp.linalg.norm(see(x) @ W) < 10

    return lambda x: lax.while_loop(condition, lambda x: see(x @ W), x)


def in_scan_in_cond(see):
    def step(x, _):
        return see(x @ W), x

    return lambda x: lax.cond(x.sum() > 1, lambda x: lax.scan(step, x, length=3)[0], lambda x: x, x)


def in_cond_in_while_in_cond(see):
    def body(x):
        return lax.cond(x[0] > 2, lambda x: see(x @ W), lambda x: x @ W + 1, x)

    def loop(x):
        return lax.while_loop(lambda x: x.sum() < 100, body, x)

    return lambda x: lax.cond(x.sum() > 1, loop, lambda x: see(x), x)


def text_of(f, *args):
    return jax.jit(f).lower(*args).as_text()


def products(text):
    """Counts the matrix products of each shape, with those of functions that several places call."""
    return Counter(re.findall(r"stablehlo\.dot_general.*?: (\(.*)", text))


@pytest.mark.parametrize("kind", [tap, ordered_tap, debug, io], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "program", [in_cond, in_while, in_scan_in_cond, in_cond_in_while_in_cond], ids=lambda program: program.__name__
)
@pytest.mark.parametrize("transform", [jax.vmap, lambda f: jax.vmap(jax.vmap(f))], ids=["vmap", "vmap of vmap"])
def test_matrix_products_match_the_program_without_callbacks(program, kind, transform):
    xs = XS if transform is jax.vmap else jnp.ones((2, 4, 3))
    with_callbacks, without = text_of(transform(program(kind)), xs), text_of(transform(program(NO_CALLBACKS)), xs)
    assert "callout.v1" in with_callbacks
    assert products(with_callbacks) == products(without) != Counter()


def test_gradients_keep_their_matrix_products():
    def gradient(see):
        return jax.value_and_grad(lambda xs: jax.vmap(in_cond(see))(xs).sum())

    assert products(text_of(gradient(tap), XS)) == products(text_of(gradient(NO_CALLBACKS), XS)) != Counter()


def given_predicate(see):
    return lambda p, x: lax.cond(p, lambda x: see(x @ W), lambda x: x, x)


def counted_loop(see):
    return lambda n, x: lax.fori_loop(0, n, lambda _, x: see(x @ W), x)


@pytest.fixture
def rules_of_jax(monkeypatch):
    """Restores JAX's own batching rules of cond and while, for a program without arguments."""
    primitives = (jex_core.primitives.cond_p, jex_core.primitives.while_p)

    def put_back():
        for primitive in primitives:
            hook = batching.fancy_primitive_batchers[primitive]
            monkeypatch.setitem(batching.fancy_primitive_batchers, primitive, getattr(hook, "callout_original", hook))

    return put_back


@pytest.mark.parametrize(
    "kind", [NO_CALLBACKS, tap, ordered_tap, debug, io], ids=["none", "tap", "ordered", "debug", "io"]
)
@pytest.mark.parametrize(
    ("program", "args", "dims"),
    [
        (given_predicate, (True, XS), (None, 0)),
        (counted_loop, (3, XS), (None, 0)),
        (in_cond, (XS[0],), None),
        (in_while, (XS[0],), None),
    ],
    ids=["one predicate", "one length", "cond", "while"],
)
def test_programs_without_diverging_lanes_keep_their_text(program, args, dims, kind, rules_of_jax):
    def text():
        f = program(kind)
        return text_of(jax.vmap(f, dims) if dims else f, *args)

    ours = text()
    rules_of_jax()
    assert text() == ours


@pytest.mark.parametrize("program", [in_cond, in_while, in_scan_in_cond], ids=lambda program: program.__name__)
def test_programs_without_callbacks_keep_their_text(program, rules_of_jax):
    text_of(tap, XS)  # installs the patch
    ours = text_of(jax.vmap(program(NO_CALLBACKS)), XS)
    rules_of_jax()
    assert text_of(jax.vmap(program(NO_CALLBACKS)), XS) == ours


@pytest.mark.parametrize("platform", ["cuda", "cpu"])
def test_loops_over_lanes_are_distinct_on_cuda(platform):
    # XLA:GPU treats loops as equal if they differ only in the callbacks of their conditionals, and calls one callback
    # in both.
    def other(x):
        return callout.tap(lambda _: None, x)

    f = jax.vmap(lambda x: lax.cond(x > 1, tap, other, x))
    text = jax.jit(f).trace(jnp.arange(4.0)).lower(lowering_platforms=(platform,)).as_text()
    numbers = re.findall(r'stablehlo.while.*callout_lanes = "(\d+)"', text)
    assert numbers == (["0", "1"] if platform == "cuda" else [])
