# SPDX-License-Identifier: Apache-2.0
"""Tests threaded: the records and results are those of JAX's ordered effect, without an effect."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
import settings
from jax import lax
from threaded_programs import (
    FOR_PLATFORMS,
    ONE,
    PROGRAMS,
    SPEC,
    Heard,
    Outs,
    conds,
    custom_rules,
    effects_of,
    fori,
    mapped,
    mixed,
    nested_jit,
    remat,
    run,
    same,
    scan,
    straight,
    trees,
    vmap_inside,
    while_body,
    while_condition,
)


@pytest.mark.parametrize("x", [0.5, 2.0])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_records_and_results_are_those_of_the_ordered_effect(program, x, caplog):
    x = jnp.float32(x)
    plain = run(lambda o: jax.jit(lambda v: program(o, v)), x)
    same(plain, run(lambda o: jax.jit(callout.threaded(lambda v: program(o, v))), x))
    same(plain, run(lambda o: callout.threaded(jax.jit(lambda v: program(o, v))), x))
    assert not effects_of(callout.threaded(lambda v: program(Outs(Heard()), v)), x)
    assert not caplog.records


@pytest.mark.parametrize(
    "program",
    [straight, trees, while_body, scan, fori, mapped, nested_jit, remat, vmap_inside, FOR_PLATFORMS],
    ids=lambda program: program.__name__,
)
def test_vmap_outside(program):
    xs = jnp.array([0.5, 2.0, 3.5])
    plain = run(lambda o: jax.jit(jax.vmap(lambda v: program(o, v))), xs)
    same(plain, run(lambda o: jax.jit(jax.vmap(callout.threaded(lambda v: program(o, v)))), xs))
    same(plain, run(lambda o: jax.jit(callout.threaded(jax.vmap(lambda v: program(o, v)))), xs))


def test_vmap_outside_of_callbacks_runs_lane_by_lane():
    def program(o, v):
        o.tap("before", v)
        o.debug("lane", v)
        o.debug("lane", v + 1)
        return o.tap("after", v)

    same(
        run(lambda o: jax.jit(jax.vmap(lambda v: program(o, v))), jnp.arange(3.0)),
        run(lambda o: jax.jit(jax.vmap(callout.threaded(lambda v: program(o, v)))), jnp.arange(3.0)),
    )


def test_vmap_of_a_tapping_loop_with_batched_condition():
    def program(o, v):
        return lax.while_loop(lambda c: o.tap("condition", c) < 3, lambda c: o.tap("body", c) + 1, v)

    def without(o, v):
        return lax.while_loop(lambda c: c < 3, lambda c: o.tap("body", c) + 1, v)

    same(
        run(lambda o: jax.jit(jax.vmap(lambda v: without(o, v))), jnp.arange(3.0)),
        run(lambda o: jax.jit(jax.vmap(callout.threaded(lambda v: without(o, v)))), jnp.arange(3.0)),
    )
    same(
        run(lambda o: jax.jit(jax.vmap(lambda v: program(o, v))), jnp.arange(3.0)),
        run(lambda o: jax.jit(callout.threaded(jax.vmap(lambda v: program(o, v)))), jnp.arange(3.0)),
    )


def test_vmap_that_would_repeat_or_reorder_is_refused(received):
    both = callout.threaded(
        lambda v: lax.cond(v > 1, lambda w: callout.tap(received.tap, w), lambda w: callout.tap(received.tap, w), v)
    )
    with pytest.raises(NotImplementedError, match=r"vmap of a cond with callbacks in several branches, over its pred"):
        jax.vmap(both)(jnp.arange(3.0))
    acting = callout.threaded(lambda v: lax.while_loop(lambda c: callout.tap(received.tap, c) < 3, lambda c: c + 1, v))
    with pytest.raises(NotImplementedError, match="vmap of a while loop with callbacks in its condition"):
        jax.jit(jax.vmap(acting))(jnp.arange(3.0))
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callbacks"):
        jax.vmap(callout.threaded(lambda v: callout.io_callback(received.tap, None, v, ordered=True) or v))(jnp.ones(2))
    assert received == []


def test_vmap_of_io_callbacks_in_branches_and_loops(received):
    one = callout.threaded(
        lambda v: lax.cond(v > 1, lambda w: callout.io_callback(received.tap, None, w) or w, lambda w: w, v)
    )
    assert jax.vmap(one)(jnp.arange(4.0)).tolist() == [0, 1, 2, 3]
    loop = callout.threaded(
        lambda v: lax.while_loop(lambda c: c < 3, lambda c: callout.io_callback(received.tap, None, c) or c + 1, v)
    )
    assert jax.vmap(loop)(jnp.arange(1.0, 4.0)).tolist() == [3, 3, 3]
    assert [float(v) for v in received] == [2, 3, 1, 2, 2]


@pytest.mark.parametrize("program", [straight, conds, scan, fori, nested_jit], ids=lambda program: program.__name__)
@pytest.mark.parametrize("outside", [jax.grad, jax.value_and_grad], ids=lambda outside: outside.__name__)
def test_grad_outside(program, outside):
    def scalar(o, v):
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(program(o, v)))

    x = jnp.float32(2)
    plain = run(lambda o: jax.jit(outside(lambda v: scalar(o, v))), x)
    same(plain, run(lambda o: jax.jit(outside(callout.threaded(lambda v: scalar(o, v)))), x))
    same(plain, run(lambda o: outside(jax.jit(callout.threaded(lambda v: scalar(o, v)))), x))
    same(plain, run(lambda o: jax.jit(callout.threaded(outside(lambda v: scalar(o, v)))), x))


def test_grad_outside_of_custom_rules():
    def program(o, v):
        return custom_rules(o, v)[0]

    x = jnp.float32(2)
    plain = run(lambda o: jax.jit(jax.grad(lambda v: program(o, v))), x)
    outside = run(lambda o: jax.jit(jax.grad(callout.threaded(lambda v: program(o, v)))), x)
    assert sorted(outside[1]) == sorted(plain[1])  # the backward rule's tap keeps its effect
    np.testing.assert_allclose(outside[0], plain[0])
    same(plain, run(lambda o: jax.jit(callout.threaded(jax.grad(lambda v: program(o, v)))), x))


def test_checkpoint_taps_again_only_if_threaded_surrounds_grad():
    x = jnp.float32(2)
    plain = run(lambda o: jax.jit(jax.grad(lambda v: remat(o, v))), x)
    outside = run(lambda o: jax.jit(jax.grad(callout.threaded(lambda v: remat(o, v)))), x)
    assert outside[1] == plain[1][::2]
    np.testing.assert_allclose(outside[0], plain[0])
    same(plain, run(lambda o: jax.jit(callout.threaded(jax.grad(lambda v: remat(o, v)))), x))


def test_checkpoint_with_prevent_cse_for_each_operand():
    def program(o, v):
        return jax.checkpoint(lambda y, z: jnp.sin(o.tap("again", y)) * z, prevent_cse=(False, True))(v, v)

    x = jnp.float32(2)
    plain = run(lambda o: jax.jit(lambda v: program(o, v)), x)
    same(plain, run(lambda o: jax.jit(callout.threaded(lambda v: program(o, v))), x))


def test_a_tap_of_a_tangent_in_a_rule():
    def program(o, v):
        @jax.custom_jvp
        def f(u):
            return u * 2

        f.defjvp(lambda primals, tangents: (f(*primals), o.tap("tangent", tangents[0]) * 2))

        @jax.custom_jvp
        def g(u):
            return o.tap("primal", u)

        g.defjvp(lambda primals, tangents: (g(*primals), o.tap("tangent", tangents[0]) * 3))
        return g(f(v))

    x = jnp.float32(2)
    plain = run(lambda o: jax.jit(jax.grad(lambda v: program(o, v))), x)
    outside = run(lambda o: jax.jit(jax.grad(callout.threaded(lambda v: program(o, v)))), x)
    assert sorted(outside[1]) == sorted(plain[1])
    np.testing.assert_allclose(outside[0], plain[0])
    same(plain, run(lambda o: jax.jit(callout.threaded(jax.grad(lambda v: program(o, v)))), x))


def test_derivatives_of_io_callbacks_are_refused_as_ever():
    f = callout.threaded(lambda v: callout.io_callback(lambda u: u, SPEC, v))
    with pytest.raises(ValueError, match="IO callbacks do not support JVP"):
        jax.grad(f)(1.0)


TRANSPOSED = {
    "straight": lambda f, x: f(f(x)),
    "jit": lambda f, x: jax.jit(f)(x),
    "loop": lambda f, x: lax.fori_loop(0, 3, lambda _, v: f(v), x),
    "scan": lambda f, x: lax.scan(lambda c, v: (c, f(v)), jnp.float32(0), x)[1],
    "branch": lambda f, x: lax.cond(True, f, lambda v: v, x),
    "remat": lambda f, x: jax.checkpoint(f)(x),
    "vmap": lambda f, x: jax.vmap(f)(x),
}


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("around", TRANSPOSED.values(), ids=TRANSPOSED)
def test_transposed_functions_call_nothing_and_are_transposed(around, wrap, received):
    def told(v):
        callout.tap(received.tap, v, ordered=True)
        callout.debug_callback(received.tap, v)
        return v * 2.0

    if around is TRANSPOSED["remat"] and settings.jax_has("remat3"):
        pytest.skip("JAX's new checkpoint has no transpose")
    x = jnp.arange(3.0)
    function = wrap(callout.threaded(lambda v: around(told, v)))
    (out,) = jax.linear_transpose(function, x)(x)
    callout.barrier_wait()
    np.testing.assert_array_equal(out, around(lambda v: v * 2.0, x))  # each function is a multiple of the identity
    assert received == []


def test_the_solvers_gradient_passes_threaded_functions(received):
    def solution(b, matvec):
        return lax.custom_linear_solve(matvec, b, *[lambda _, v: v / 4.0] * 2).sum()

    matvec = callout.threaded(lambda v: callout.tap(received.tap, v) * 4.0)
    gradient = jax.jit(jax.grad(lambda b: solution(b, matvec)))(jnp.ones(3))
    callout.barrier_wait()
    assert gradient.tolist() == [0.25] * 3


def test_transposed_io_callbacks_are_rejected():
    def f(x):
        return callout.io_callback(lambda v: v, x, x)

    with pytest.raises(ValueError, match="IO callbacks do not support transpose"):
        jax.linear_transpose(callout.threaded(f), jnp.ones(3))(jnp.ones(3))


def test_unordered_callbacks_are_put_in_order_too():
    heard = Heard()
    a, b = heard.receiver("a"), heard.receiver("b", np.float32(1))

    @callout.threaded
    def f(x):
        callout.tap(a, x)
        y = callout.io_callback(b, SPEC, x)
        callout.debug_callback(b, x + 1)
        callout.tap(a, x + 2)
        return x + y

    jax.block_until_ready(jax.jit(f)(ONE))
    assert not effects_of(f, ONE)
    callout.barrier_wait(timeout=30)
    assert sorted(heard.records) == [("a", 1), ("a", 3), ("b", 1), ("b", 2)]
    for name, values in (("a", [1, 3]), ("b", [1, 2])):
        assert [value for key, value in heard.records if key == name] == values


def test_eager():
    for program in (straight, mixed, while_condition, scan):
        same(
            run(lambda o, p=program: lambda v: p(o, v), ONE),
            run(lambda o, p=program: callout.threaded(lambda v: p(o, v)), ONE),
        )


def test_arguments_that_are_no_arrays(received):
    @callout.threaded
    def f(x, count, *, scale=2.0, name):
        for _ in range(count):
            x = callout.tap(received.tap, x * scale, name=name, ordered=True)
        return {"x": x}

    out = jax.jit(f, static_argnums=1, static_argnames="name")(ONE, 2, name="step")
    assert float(out["x"]) == 4
    assert float(f(ONE, 1, scale=3.0, name="step")["x"]) == 3
    callout.barrier_wait()
    assert [float(value) for value in received] == [2, 4, 3]
    assert f.__name__ == "f"


def test_closed_over_tracers(received):
    @jax.jit
    def f(x, y):
        return callout.threaded(lambda v: callout.tap(received.tap, v * y, ordered=True) + y)(x)

    assert float(f(3.0, 2.0)) == 8
    callout.barrier_wait()
    assert [float(value) for value in received] == [6]


def test_functions_without_callbacks_stay_as_they_are():
    def f(x):
        return jnp.sin(x) + lax.cond(x > 0, lambda: x, lambda: 2.0)

    assert str(jax.make_jaxpr(callout.threaded(f))(1.0)) == str(jax.make_jaxpr(f)(1.0))


@pytest.mark.native_only(platforms.TEXT)
def test_the_rest_of_the_program_is_unchanged():
    sink = callout.sinks.Null()

    def f(x, tap):
        y = tap(jnp.tanh(x @ x))
        return y.sum(), x[0]  # two results, because test_held_results.py tests programs of one

    x = jnp.ones((8, 8))
    tapped = jax.jit(callout.threaded(lambda x: f(x, lambda v: callout.tap(sink, v, ordered=True)))).lower(x)
    plain = jax.jit(lambda x: f(x, lambda v: v)).lower(x)

    def count(lowered, text):
        return lowered.as_text().count(text)

    assert count(tapped, "callout.v1.tap") == 1
    for operation in (" stablehlo.", "optimization_barrier"):
        extra = {" stablehlo.": 2}.get(operation, 0)  # the call and the first token
        assert count(tapped, operation) == count(plain, operation) + extra
