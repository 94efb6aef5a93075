# SPDX-License-Identifier: Apache-2.0
"""Tests that `locate_nans` calls rules of the user no more than JAX does, so that even wrong answers are equal."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import settings

X = jnp.float32(3)


def with_rule():
    """Returns an identity and the list of cotangents for which its rule was called. The rule is wrong for zeros."""
    asked = []

    @jax.custom_vjp
    def identity(x):
        return x

    def backward(_, cotangent):
        jax.debug.callback(lambda c: asked.append(float(c)), cotangent)
        return (cotangent + 7,)

    identity.defvjp(lambda x: (x, None), backward)
    return identity, asked


def in_a_loop(identity):
    return lambda x: jax.lax.scan(lambda c, _: (identity(c), None), x, None, length=1)[0]


def unused(located, identity):
    def f(x):
        located(lambda y: y * 2)(in_a_loop(identity)(x))
        return x

    return f


def one_of_two_results(located, identity):
    return lambda x: located(lambda y: (y * 2, in_a_loop(identity)(y)))(x)[0]


def one_of_two_arguments(located, identity):
    return lambda x: located(lambda y, z: (y * 2, z))(x, in_a_loop(identity)(x))[0]


def one_of_two_arguments_under_vmap(located, identity):
    f = one_of_two_arguments(located, identity)
    return lambda x: jax.vmap(f)(jnp.stack([x, x])).sum()


def second_derivative(located, identity):
    f = one_of_two_results(located, identity)
    return lambda x: jax.grad(lambda y: f(y * y))(x)


CASES = [unused, one_of_two_results, one_of_two_arguments, one_of_two_arguments_under_vmap, second_derivative]


def with_derivative(f):
    """Returns `f` with a derivative rule, which JAX's new `custom_jvp` also calls for zeros."""
    known = jax.custom_jvp(f)
    known.defjvp(lambda primals, tangents: jax.jvp(f, primals, tangents))
    return known


@pytest.mark.parametrize("granularity", ["line", "operation"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_rules_are_called_only_for_nonzero_tangents(case, granularity):
    def gradient(located):
        identity, asked = with_rule()
        value = jax.jit(jax.grad(case(located, identity)))(X).block_until_ready()
        jax.effects_barrier()
        return float(value), asked

    plain = gradient(with_derivative if settings.jax_has("custom_jvp3") else lambda f: f)
    assert all(zero == 0 for zero in plain[1])
    assert gradient(lambda f: callout.locate_nans(f, granularity=granularity)) == plain


def test_rules_of_used_results_are_called():
    identity, asked = with_rule()
    value = jax.jit(jax.grad(callout.locate_nans(lambda x: 2 * in_a_loop(identity)(x))))(X).block_until_ready()
    jax.effects_barrier()
    assert (float(value), asked) == (9, [2])


def test_zero_tangents_call_no_rule():
    def calls(located):
        forward, plain = [], []

        @jax.custom_vjp
        def f(x):
            callout.tap(plain.append, x)
            return x

        def rule(x):
            callout.tap(forward.append, x)
            return x, None

        f.defvjp(rule, lambda _, cotangent: (cotangent,))

        def program(x):
            still, moving = located(lambda y: (jnp.zeros_like(y), y * 2))(x)
            return f(still) + f(moving)

        jax.jit(jax.grad(program))(X).block_until_ready()
        callout.barrier_wait()
        return [float(x) for x in plain], [float(x) for x in forward]

    assert calls(lambda f: f) == calls(callout.locate_nans) == ([0], [6])


@pytest.mark.parametrize("send", [callout.tap, jax.debug.callback], ids=["tap", "debug.callback"])
@pytest.mark.parametrize(
    "program",
    [
        lambda f: lambda x: jax.jvp(f, (x,), (x,))[1],
        lambda f: jax.grad(f),
        lambda f: jax.grad(lambda x: (f(x), x * 2)[1]),
    ],
    ids=["jvp", "grad", "unused"],
)
def test_ordered_effects_of_recomputation_stay(send, program):
    def outcome(located):
        seen = []

        @jax.checkpoint
        def f(x):
            send(seen.append, x, ordered=True)
            return x * 2

        value = jax.jit(program(located(f)))(X).block_until_ready()
        jax.effects_barrier()
        callout.barrier_wait()
        return float(value), {float(x) for x in seen}

    assert outcome(callout.locate_nans) == outcome(lambda f: f)


@pytest.mark.parametrize("moves", [0.0, 1.0])
@pytest.mark.parametrize("is_used", [False, True])
def test_taps_of_unused_tangents_are_sent(moves, is_used):
    def sent(located):
        seen = []

        @jax.custom_jvp
        def f(x):
            return x * 2

        @f.defjvp
        def _(primals, tangents):
            callout.tap(seen.append, tangents[0])
            callout.tap(seen.append, jnp.float32(7))
            return f(primals[0]), tangents[0] if moves else jnp.zeros_like(tangents[0])

        def program(x):
            outs = jax.jvp(located(lambda y: f(y) + 1), (x,), (x,))
            return outs if is_used else outs[0]

        def step(carry, _):
            program(carry)
            return carry, None

        jax.block_until_ready(jax.jit(program)(X))
        jax.jit(lambda x: jax.lax.scan(step, x, None, length=2)[0])(X).block_until_ready()
        callout.barrier_wait()
        return sorted(float(x) for x in seen)

    assert sent(callout.locate_nans) == sent(lambda f: f) == [3, 3, 3, 7, 7, 7]


CHECKPOINTED = {
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](x),
    "vjp that nobody uses": lambda f: lambda x: (jax.vjp(f, x)[1](x), x)[1],
    "gradient": lambda f: jax.grad(lambda x: (f(x) ** 2).sum()),
    "lanes of a gradient": lambda f: lambda x: jax.vmap(jax.grad(lambda x: f(x).sum()))(jnp.stack([x, x])),
    "gradient of a loop": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0].sum()
    ),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("send", [callout.tap, callout.debug_callback, jax.debug.callback], ids=["tap", "debug", "JAX"])
@pytest.mark.parametrize("program", CHECKPOINTED)
def test_recomputation_calls_as_often_as_without(program, send):
    def count(located):
        seen = []

        @jax.checkpoint
        def inner(x):
            send(lambda x: seen.append(1), x)
            return jnp.sin(x)

        for f in (lambda x: inner(x * 2), lambda x: x.sum() + inner(x)):
            jax.block_until_ready(jax.jit(CHECKPOINTED[program](located(f)))(jnp.ones(4)))
        callout.barrier_wait()
        jax.effects_barrier()
        return len(seen)

    assert count(callout.locate_nans) == count(lambda f: f) > 0


def test_a_checkpoint_keeps_results_of_a_located_function():
    """JAX keeps the results of functions with a custom derivative and an effect; its new `checkpoint` does not."""
    seen = []

    def f(x):
        callout.tap(seen.append, x)
        return jnp.sin(x)

    jax.jit(jax.grad(lambda x: jax.checkpoint(callout.locate_nans(f))(x).sum()))(jnp.ones(4)).block_until_ready()
    callout.barrier_wait()
    assert len(seen) == 1 + settings.jax_has("remat3")


def test_taps_of_unused_checkpoints_are_sent_no_more_often():
    def count(located):
        seen = []

        def f(x):
            def kept(y):
                callout.tap(seen.append, jnp.zeros(4))
                return y

            located(jax.checkpoint(kept))(x)
            return x.sum()

        jax.jit(jax.grad(f))(jnp.ones(4)).block_until_ready()
        callout.barrier_wait()
        return len(seen)

    assert 1 <= count(callout.locate_nans) <= count(lambda f: f)


@pytest.mark.parametrize("granularity", ["line", "operation", "function"])
def test_a_nan_that_a_nested_function_is_given_is_meant(granularity):
    with jax.enable_x64(True):  # with x64, a Python scalar is converted inside of the function
        for f in (
            lambda x: jnp.where(x > 5, jnp.nan, x),
            lambda x: callout.error_if(x, x > 5, "large", on_error="nan"),
            lambda x: jnp.where(x > 5, jnp.inf, x),
        ):
            located = jax.jit(callout.locate_nans(f, stop=True, granularity=granularity))
            assert np.asarray(located(jnp.float32(1))) == 1


def test_a_jax_without_the_pass_that_transposes_linearizes_again(monkeypatch):
    monkeypatch.setattr("callout._jax_compat.equations._backward_pass", None)

    def f(x):
        return (jnp.sin(x) * x[::-1]).sum(), x**2

    def all_of(f):
        return jax.jit(lambda x: (jax.grad(lambda x: f(x)[0])(x), jax.jacrev(lambda x: f(x)[1])(x)))

    x = jnp.arange(1.0, 4.0)
    for got, expected in zip(all_of(callout.locate_nans(f))(x), all_of(f)(x), strict=True):
        np.testing.assert_array_equal(got, expected)


SHOWN = {
    "jax.debug.callback": lambda z: jax.debug.callback(lambda _: None, z),
    "jax.debug.print": lambda z: jax.debug.print("{}", z),
    "debug_callback": lambda z: callout.debug_callback(lambda _: None, z),
    "debug_callback, ordered": lambda z: callout.debug_callback(lambda _: None, z, ordered=True),
    "tap": lambda z: callout.tap(lambda _: None, z),
    "check": lambda z: callout.check(jnp.ones((), bool), "{z}", z=z),
    "watch": lambda z: callout.watch(z, "z"),
}


@pytest.mark.parametrize("show", SHOWN)
@pytest.mark.parametrize("function", [lambda x: 0.75 * x + 1, jnp.tanh], ids=["affine", "tanh"])
def test_recomputed_values_may_be_shown(show, function):
    def loss(x, located):
        z = located(function)(x)
        SHOWN[show](z)
        return z

    def gradient(located):
        return jax.jit(jax.grad(jax.checkpoint(lambda x: loss(x, located))))(jnp.float32(0.5))

    assert gradient(callout.locate_nans) == gradient(lambda f: f)
    jax.effects_barrier()
    callout.barrier_wait()


def test_effectful_results_are_shown_as_often_under_checkpoint():
    seen = []

    @jax.custom_jvp
    def noted(x):
        callout.debug_callback(lambda v: seen.append(("inside", float(v))), x)
        return x + 1

    noted.defjvp(lambda primals, tangents: (noted(*primals), tangents[0]))

    @jax.checkpoint
    def loss(x):
        callout.debug_callback(lambda v: seen.append(("result", float(v))), noted(jax.lax.stop_gradient(x)))
        return x * x

    assert jax.jit(jax.grad(loss))(jnp.float32(3)) == 6
    jax.effects_barrier()
    assert sorted(seen) == [("inside", 3)] * (1 + settings.jax_has("remat3")) + [("result", 4), ("result", 4)]


def test_tangents_may_be_python_numbers_under_vmap():
    located = callout.locate_nans(lambda x: jnp.sin(x) * 2)

    def moved(x):
        return jax.jvp(located, (x,), (1.0,))[1]

    x = jnp.arange(3, dtype=jnp.float32)
    np.testing.assert_allclose(jax.vmap(moved)(x), 2 * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(moved))(x), 2 * np.cos(x), rtol=1e-6)
