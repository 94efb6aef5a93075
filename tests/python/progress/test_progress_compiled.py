# SPDX-License-Identifier: Apache-2.0
"""Tests the effect of a bar on a compiled program: the results stay equal to the bit, the inner loop has no message."""

import re

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._base import patches
from jax import lax

KEY = jax.random.key(0)
MATRIX = jax.random.normal(KEY, (8, 8), np.float32) / 8
VECTOR = jax.random.normal(KEY, (8,), np.float32)
XS = jax.random.normal(KEY, (137,), np.float32)


def chaotic(c, x):
    c = np.float32(3.9) * c * (np.float32(1) - c) + x * np.float32(1e-6)
    return c, c


def layer(c, x):
    c = jnp.tanh(MATRIX @ c + x)
    return c, jnp.sum(c * c)


def fused(c, x):
    a, b = c
    a, b = a * np.float32(0.99) + b * x, jnp.sin(a) - b * b / np.float32(3)
    return (a, b), (a * b + x, jnp.exp(b))


def random(c, x):
    key, total = c
    key, one = jax.random.split(key)
    return (key, total + jax.random.normal(one) * x), total


def statistics(c, x):
    c = (c - jnp.mean(c)) / (jnp.std(c) + np.float32(1e-3)) + x
    return c, jnp.logaddexp(c[0], x)


BODIES = {
    "chaotic": (chaotic, np.float32(0.3)),
    "layer": (layer, VECTOR),
    "fused": (fused, (np.float32(0.1), np.float32(0.2))),
    "random": (random, (KEY, np.float32(0))),
    "statistics": (statistics, VECTOR),
}


def bits(tree):
    def bytes_of(leaf):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return leaf.dtype, leaf.weak_type, leaf.shape, np.asarray(leaf).tobytes()

    return jax.tree.map(bytes_of, tree)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("rate", [None, 1, 10])
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"unroll": 3}], ids=["plain", "reverse", "unroll"])
def test_scan_is_the_same_to_the_bit(screen, name, rate, options):
    body, init = BODIES[name]
    bar = screen.bar(print_rate=rate, leaf=lambda out: jax.tree.leaves(out)[-1])
    got, expected = (
        jax.jit(lambda init, step=step: lax.scan(step, init, XS, **options))(init) for step in (bar(body), body)
    )
    assert bits(got) == bits(expected)
    assert screen.ends() == (137, 137)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 4])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_fields_of_stacked_outputs_are_computed_outside_the_loop(screen, reverse, unroll, place):
    def body(c, x):
        return jnp.sin(c) * np.float32(1.1) + x * c, (jnp.cos(c) + x, jnp.cos(c), jnp.sin(c))

    xs = jnp.linspace(0.1, 1, 23)
    bar = screen.bar(print_rate=4, value=lambda out: out[1][place] * 1000)
    got, expected = (
        jax.jit(lambda c, step=step: lax.scan(step, c, xs, reverse=reverse, unroll=unroll))(np.float32(0.5))
        for step in (bar(body), body)
    )
    if reverse:  # XLA compiles this loop differently, with and without a field
        jax.tree.map(lambda new, old: np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-6), got, expected)
    else:
        assert bits(got) == bits(expected)
    by_step = np.asarray(expected[1][place])[::-1] if reverse else np.asarray(expected[1][place])
    last = {frame.done: frame.fields["value"] for frame in screen.frames() if frame.fields}
    assert {4, 8, 12, 16} <= set(last)
    for done, value in last.items():
        if done < 23:
            assert float(value) == pytest.approx(1000 * by_step[done - 1], rel=0.01)


@pytest.mark.parametrize("name", ["chaotic", "layer", "fused", "statistics"])
def test_derivative_is_the_same_to_the_bit(screen, name):
    body, init = BODIES[name]

    def loss(step):
        return lambda init: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(lax.scan(step, init, XS[:20])))

    got, expected = (jax.jit(jax.grad(loss(step)))(init) for step in (screen.bar()(body), body))
    assert bits(got) == bits(expected)


@pytest.mark.parametrize("batched", [False, True])
def test_while_loop_is_the_same_to_the_bit(screen, batched):
    def newton(v):
        x, a = v
        return (x + a / x) * np.float32(0.5), a

    def is_left(v):
        return jnp.abs(v[0] * v[0] - v[1]) > np.float32(1e-6) * v[1]

    a = jnp.abs(XS[:16]) + np.float32(0.1) if batched else jnp.float32(7)
    wrap = jax.vmap if batched else lambda f: f
    got, expected = (
        jax.jit(wrap(lambda a, step=step: lax.while_loop(is_left, step, (a, a))))(a)
        for step in (screen.bar(x=lambda v: v[0])(newton), newton)
    )
    assert bits(got) == bits(expected)
    assert screen.frames()[-1].done > 2


def test_weak_types_stay(screen):
    got, expected = (
        jax.jit(lambda step=step: lax.scan(step, 1.0, None, length=5))() for step in (screen.bar()(double), double)
    )
    assert bits(got) == bits(expected)


def double(c, _):
    return c * 2, c


def lowered(function, *args):
    jax.clear_caches()
    return jax.jit(function).lower(*args).as_text()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lax.scan(chaotic, x, XS, unroll=3, reverse=True),
        lambda x: lax.fori_loop(0, 10, lambda i, c: c * i, x),
        lambda x: jax.vmap(lambda y: lax.while_loop(lambda v: v < 5, lambda v: v + 1, y))(x + XS),
        lambda x: jax.grad(lambda y: lax.scan(chaotic, y, XS)[0])(x),
    ],
    ids=["scan", "fori", "while", "grad"],
)
def test_loops_without_a_bar_are_lowered_by_jax(function):
    patches.ensure("loop_lowering")
    ours = lowered(function, np.float32(0.3))
    try:
        callout.config.patch_loop_lowering = False
        assert lowered(function, np.float32(0.3)) == ours
    finally:
        callout.config.patch_loop_lowering = True


@pytest.mark.native_only(platforms.TEXT)
@pytest.mark.cpu_only("it looks for a call that XLA:CPU makes of a loop")
def test_inner_loop_has_no_message(screen):
    """The program has one tap, in the outer of two loops."""
    text = jax.jit(lambda x: lax.scan(screen.bar()(chaotic), x, XS)).lower(np.float32(0.3)).as_text()
    assert len(re.findall(r"custom_call @callout\.v1\.tap", text)) == 1
    assert text.count("stablehlo.while") == 2
    compiled = jax.jit(lambda x: lax.scan(screen.bar()(chaotic), x, XS)).lower(np.float32(0.3)).compile().as_text()
    computations = re.split(r"\n\n", compiled)
    tapping = [one for one in computations if "callout.v1.tap" in one]
    assert len(tapping) == 1
    # The inner loop does not contain the tap, and is small enough for XLA to make one function of it, as without a bar.
    assert "xla_cpu_small_call" in tapping[0]


def test_a_marker_in_a_function_cuts_the_loop(screen):
    for wrap in (jax.jit, jax.checkpoint, lambda body: jax.jit(jax.checkpoint(body))):
        text = (
            jax.jit(lambda x, wrap=wrap: lax.scan(wrap(screen.bar()(chaotic)), x, XS)).lower(np.float32(0.3)).as_text()
        )
        assert text.count("stablehlo.while") == 2


def test_program_text_is_the_same_in_each_process(screen):
    def text():
        body = screen.bar(137, "fit", loss=lambda out: out[0])(chaotic)
        return jax.jit(lambda x: lax.scan(body, x, XS)).lower(np.float32(0.3)).as_text()

    first = text()
    jax.clear_caches()
    assert text() == first
