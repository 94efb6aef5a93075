# SPDX-License-Identifier: Apache-2.0
"""Tests the output of `id_print` under transformations of JAX."""

import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import pytest


@pytest.fixture
def power3(stream):
    def power3(x):
        y = x * x
        hcb.id_print((x, y), what="x,x^2", output_stream=stream)
        return y * x

    return power3


def test_jvp_and_grad_print_primal_values_once(stream, power3):
    once = "what: x,x^2\n( 3. 9. )\n"
    assert power3(3.0) == 27
    assert stream.take() == once
    assert jax.jvp(power3, (3.0,), (0.1,))[1] == pytest.approx(2.7)
    assert stream.take() == once
    assert jax.grad(power3)(3.0) == 27
    assert stream.take() == once
    assert jax.jit(jax.grad(power3))(3.0) == 27
    assert stream.take() == once
    assert jax.grad(jax.grad(power3))(3.0) == 18
    assert stream.take() == once
    assert jax.hessian(power3)(3.0) == 18


def test_vmap_prints_the_batch_once(stream, power3):
    batch = "transforms: [('batch', {'batch_dims': (0, 0)})] what: x,x^2\n( [2. 3.] [4. 9.] )\n"
    for f in (power3, jax.grad(power3), jax.jit(power3)):
        jax.vmap(f)(jnp.array([2.0, 3.0]))
        assert stream.take() == batch


def test_descriptors_of_vmap(stream):
    def f(x, y):
        return hcb.id_print((x, y), what="x", output_stream=stream)

    jax.vmap(jax.vmap(f, (0, None)), (None, 0))(jnp.arange(2.0), jnp.arange(3.0))
    inner_first = "[('batch', {'batch_dims': (0, None)}), ('batch', {'batch_dims': (None, 0)})]"
    assert stream.take() == f"transforms: {inner_first} what: x\n( [0. 1.] [0. 1. 2.] )\n"
    jax.vmap(lambda x: hcb.id_print(x, what="x", output_stream=stream), in_axes=1)(jnp.arange(6.0).reshape(2, 3))
    untransposed = "[[0. 1. 2.]\n [3. 4. 5.]]\n"
    assert stream.take() == "transforms: [('batch', {'batch_dims': (1,)})] what: x\n" + untransposed


def test_vmap_of_an_independent_print(stream):
    jax.vmap(lambda x: x + hcb.id_print(7, output_stream=stream))(jnp.arange(3))
    assert stream.take() == "7\n"


def test_remat_prints_again(stream, power3):
    jax.grad(lambda x: power3(jax.checkpoint(power3)(x)))(3.0)
    lines = "what: x,x^2\n( 3. 9. )\nwhat: x,x^2\n( 27. 729. )\nwhat: x,x^2\n( 3. 9. )\n"
    assert stream.take() == lines


def test_remat_respects_policies(stream, power3):
    saved = jax.checkpoint(power3, policy=jax.checkpoint_policies.everything_saveable)
    jax.grad(saved)(3.0)
    assert stream.take() == "what: x,x^2\n( 3. 9. )\n"


def test_remat_respects_policies_that_offload(stream, power3):
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=[], offload_src="device", offload_dst="pinned_host"
    )
    jax.grad(jax.checkpoint(power3, policy=policy))(3.0)
    assert stream.take() == "what: x,x^2\n( 3. 9. )\n" * 2


def test_remat_in_a_scan_prints_again_in_reverse(stream):
    def step(c, x):
        return hcb.id_print(c, output_stream=stream) * x, None

    jax.grad(lambda c: jax.lax.scan(jax.checkpoint(step), c, jnp.array([2.0, 3.0]))[0])(1.0)
    assert stream.take() == "1.\n2.\n2.\n1.\n"


def while_loop(x, stream):
    def show(value, what):
        return hcb.id_print(value, what=what, output_stream=stream)

    x = show(x, "before")
    x = jax.lax.while_loop(lambda c: show(c < 2, "w_c"), lambda c: show(c + 1, "w_b"), x)
    return show(x, "after")


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_vmap_of_a_while_loop_with_a_tapping_condition(stream, wrap):
    out = wrap(jax.vmap(lambda x: while_loop(x, stream)))(jnp.arange(5))
    assert out.tolist() == [2, 2, 2, 3, 4]
    lines = [line for line in stream.take().splitlines() if not line.startswith("transforms")]
    assert lines == [
        "[0 1 2 3 4]",
        "[ True  True False False False]",
        "[1 2 3 4 5]",
        "[ True False False False False]",
        "[2 3 3 4 5]",
        "[False False False False False]",
        "[2 2 2 3 4]",
    ]


def test_lanes_that_have_finished_are_tapped_as_they_are(stream):
    def f(x):
        return jax.lax.while_loop(lambda c: hcb.id_print((c, c % 3 != 0), output_stream=stream)[1], lambda c: c + 1, x)

    assert jax.vmap(f)(jnp.array([1, 2, 3])).tolist() == [3, 3, 3]
    lines = stream.take().splitlines()[1::2]
    assert lines == [
        "( [1 2 3] [ True  True False] )",
        "( [2 3 3] [ True False False] )",
        "( [3 3 3] [False False False] )",
    ]


def test_vmap_of_a_while_loop_with_taps_in_its_body(stream):
    def f(x):
        return jax.lax.while_loop(lambda c: c < 2, lambda c: hcb.id_print(c + 1, output_stream=stream), x)

    assert jax.vmap(f)(jnp.arange(5)).tolist() == [2, 2, 2, 3, 4]
    assert stream.take().splitlines()[1::2] == ["[1 2 3 4 5]", "[2 3 3 4 5]"]


def test_vmap_of_cond_runs_both_branches_with_the_whole_batch(stream):
    def branch(what):
        return lambda x: hcb.id_print(x, what=what, output_stream=stream)

    out = jax.vmap(lambda p, x: jax.lax.cond(p, branch("true"), branch("false"), x))(
        jnp.array([True, False]), jnp.array([1.0, 2.0])
    )
    assert out.tolist() == [1, 2]
    lines = stream.take().splitlines()
    assert [line.split("what: ")[-1] for line in lines] == ["false", "[1. 2.]", "true", "[1. 2.]"]


def test_the_documented_tangents(stream):
    @jax.custom_jvp
    def print_tangents(arg):
        return None

    @print_tangents.defjvp
    def print_tangents_jvp(primals, tangents):
        (arg_dot,) = tangents
        hcb.id_print(arg_dot, what="tangents", output_stream=stream)
        return primals, tangents

    def power3_with_tangents(x):
        y = x * x
        hcb.id_print((x, y), what="x,x^2", output_stream=stream)
        print_tangents((x, y))
        return y * x

    jax.jvp(power3_with_tangents, (3.0,), (0.1,))
    assert stream.take() == "what: x,x^2\n( 3. 9. )\nwhat: tangents\n( 0.1 0.6 )\n"


def test_the_documented_cotangents(stream):
    @jax.custom_vjp
    def print_cotangents(arg):
        return arg

    def print_cotangents_bwd(residual, ct_b):
        hcb.id_print(ct_b, what="cotangents", output_stream=stream)
        return (ct_b,)

    print_cotangents.defvjp(lambda arg: (print_cotangents(arg), None), print_cotangents_bwd)

    def power3_with_cotangents(x):
        y = x * x
        hcb.id_print((x, y), what="x,x^2", output_stream=stream)
        (x1, y1) = print_cotangents((x, y))
        return y1 * x1

    jax.grad(power3_with_cotangents)(3.0)
    assert stream.take() == "what: x,x^2\n( 3. 9. )\nwhat: cotangents\n( 9. 3. )\n"


def test_a_tap_of_a_tangent_is_transposed(stream):
    @jax.custom_jvp
    def f(x):
        return x * x

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (x_dot,) = primals, tangents
        x_dot = hcb.id_print(x_dot, what="x_dot", output_stream=stream)
        return f(x), 2 * x * x_dot

    jax.jvp(f, (3.0,), (0.1,))
    assert stream.take() == "what: x_dot\n0.1\n"
    jax.grad(lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=1)[0])(jnp.float32(1.05))
    assert stream.take() == "transforms: ['transpose'] what: x_dot\n2.1\n"
