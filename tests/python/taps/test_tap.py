# SPDX-License-Identifier: Apache-2.0
"""Tests tap: the identity on its value under every transformation, the records, and the unchanged program."""

import re
import threading

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax


def floats(received):
    return [np.asarray(value).tolist() for value in received]


def delivered(received):
    callout.barrier_wait(timeout=30)
    return floats(received)


def test_eager_returns_its_value_and_delivers(received):
    x = jnp.arange(3.0)
    assert callout.tap(received.tap, x) is x
    assert delivered(received) == [[0, 1, 2]]
    assert isinstance(received[0], np.ndarray)
    assert received[0].flags.writeable


def test_jit_nested_jit_and_aot(received):
    f = jax.jit(lambda x: jax.jit(lambda y: callout.tap(received.tap, y * 2))(x) + 1)
    assert float(f(1.0)) == 3
    compiled = f.lower(jnp.float32(2)).compile()
    assert [float(compiled(jnp.float32(i))) for i in range(3)] == [1, 3, 5]
    assert delivered(received) == [2, 0, 2, 4]


def test_pytrees_keep_their_structure(received):
    value = {"a": jnp.ones(2), "b": (jnp.int32(1), [jnp.float32(2)])}
    out = jax.jit(lambda v: callout.tap(received.tap, v))(value)
    assert jax.tree.structure(out) == jax.tree.structure(value)
    callout.barrier_wait()
    assert jax.tree.structure(received[0]) == jax.tree.structure(value)
    assert received[0]["b"][0].dtype == np.int32


def test_empty_values_are_returned_and_not_sent(received):
    assert callout.tap(received.tap, ()) == ()
    assert callout.tap(received.tap, None) is None
    assert delivered(received) == []


def test_result_is_returned_and_not_sent(received):
    f = jax.jit(lambda x: callout.tap(received.tap, x, result=x + 1))
    assert float(f(1.0)) == 2
    assert callout.tap(received.tap, 5, result="anything") == "anything"
    assert delivered(received) == [1, 5]


def test_kept_when_its_result_is_unused(received):
    def f(x):
        callout.tap(received.tap, x)
        return 0.0

    jax.jit(f)(1.0)
    jax.jit(lambda x: jax.jit(f)(x))(2.0)
    jax.jit(lambda xs: lax.scan(lambda c, x: (c, f(x)), 0, xs))(jnp.array([3.0, 4.0]))
    jax.jit(lambda p, x: lax.cond(p, f, lambda x: 0.0, x))(True, 5.0)
    assert delivered(received) == [1, 2, 3, 4, 5]


def test_loops_deliver_in_order(received):
    f = jax.jit(lambda x: lax.fori_loop(0, 1000, lambda i, c: callout.tap(received.tap, c) + 1, x))
    assert float(f(0.0)) == 1000
    assert delivered(received) == list(range(1000))
    received.clear()
    jax.jit(lambda x: lax.while_loop(lambda c: callout.tap(received.tap, c) < 3, lambda c: c + 1, x))(0.0)
    assert delivered(received) == [0, 1, 2, 3]


def test_conditions_of_counted_loops_call_as_jax_unless_ordered():
    def times(call):
        got = []

        def condition(c):
            call(got, c[0])
            return c[0] < 3

        jax.jit(lambda x: lax.while_loop(condition, lambda c: (c[0] + 1, c[1] * 2), (0, x)))(1.0)
        jax.effects_barrier()
        callout.barrier_wait()
        return len(got)

    jax_times = times(lambda got, i: jax.debug.callback(got.append, i))
    assert times(lambda got, i: callout.tap(got.append, i)) == jax_times  # 0: XLA counts the steps itself
    assert times(lambda got, i: callout.tap(got.append, i, ordered=True)) == 4


def test_vmap_delivers_the_batch_once_with_its_dimensions():
    got = []

    def receive(value, *, transforms):
        got.append((jax.tree.map(np.shape, value), transforms))

    f = lambda x, y: callout.tap(receive, (x, y), with_transforms=True)  # noqa: E731
    jax.jit(jax.vmap(f, (0, None)))(jnp.zeros(3), jnp.float32(1))
    jax.vmap(f, (1, 0))(jnp.zeros((2, 3)), jnp.zeros(3))
    jax.jit(jax.vmap(jax.vmap(f, (0, None)), (None, 0)))(jnp.zeros(3), jnp.zeros(2))
    f(jnp.float32(1), jnp.float32(2))
    callout.barrier_wait()
    assert got == [
        (((3,), ()), (("batch", {"batch_dims": (0, None)}),)),
        (((2, 3), (3,)), (("batch", {"batch_dims": (1, 0)}),)),
        (((3,), (2,)), (("batch", {"batch_dims": (0, None)}), ("batch", {"batch_dims": (None, 0)}))),
        (((), ()), ()),
    ]


def test_vmap_of_while_and_cond_with_batched_predicates(received):
    f = lambda x: lax.while_loop(lambda c: c < 2, lambda c: callout.tap(received.tap, c) + 1, x)  # noqa: E731
    np.testing.assert_array_equal(jax.jit(jax.vmap(f))(jnp.arange(5.0)), [2, 2, 2, 3, 4])
    assert delivered(received) == [0, 1, 1]
    received.clear()
    g = lambda x: lax.cond(x > 1, lambda v: callout.tap(received.tap, v), lambda v: v, x)  # noqa: E731
    np.testing.assert_array_equal(jax.jit(jax.vmap(g))(jnp.arange(3.0)), [0, 1, 2])
    assert delivered(received) == [2]


def test_jvp_and_grad_deliver_primal_values_once(received):
    def f(x):
        y = callout.tap(received.tap, x * x)
        return y * x

    assert float(jax.jit(jax.grad(f))(3.0)) == 27
    assert delivered(received) == [9]
    received.clear()
    primal, tangent = jax.jit(lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),)))(jnp.float32(2))
    assert (float(primal), float(tangent)) == (8, 12)
    assert delivered(received) == [4]
    received.clear()
    assert float(jax.grad(jax.grad(f))(2.0)) == 12
    callout.barrier_wait()
    assert set(floats(received)) == {4}


def test_grad_of_scan_and_cond(received):
    def f(x):
        return lax.scan(lambda c, _: (callout.tap(received.tap, c) * 2, None), x, None, length=3)[0]

    assert float(jax.jit(jax.grad(f))(1.0)) == 8
    assert delivered(received) == [1, 2, 4]
    received.clear()
    g = lambda x: lax.cond(x > 0, lambda v: callout.tap(received.tap, v) * 3, lambda v: v, x)  # noqa: E731
    assert float(jax.jit(jax.grad(g))(1.0)) == 3
    assert delivered(received) == [1]


def test_remat_taps_again_unless_the_policy_saves(received):
    def f(x):
        return jnp.sin(callout.tap(received.tap, jnp.sin(x)))

    value = float(jnp.sin(jnp.float32(1)))
    expected = jax.grad(lambda x: jnp.sin(jnp.sin(x)))(1.0)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.checkpoint(f)))(1.0), expected, rtol=1e-6)
    assert delivered(received) == pytest.approx([value, value])
    received.clear()
    saved = jax.checkpoint(f, policy=jax.checkpoint_policies.everything_saveable)
    np.testing.assert_allclose(jax.jit(jax.grad(saved))(1.0), expected, rtol=1e-6)
    assert delivered(received) == pytest.approx([value])
    received.clear()
    loop = jax.checkpoint(
        lambda x: lax.scan(lambda c, _: (jnp.sin(callout.tap(received.tap, c)), None), x, None, length=3)[0]
    )
    jax.jit(jax.grad(loop))(1.0)
    assert len(delivered(received)) == 6


def test_custom_derivative_rules(received):
    @jax.custom_jvp
    def f(x):
        return x * 2

    @f.defjvp
    def _(primals, tangents):
        callout.tap(received.tap, tangents[0])
        return f(primals[0]), tangents[0] * 2

    assert float(jax.jvp(f, (1.0,), (0.5,))[1]) == 1
    assert delivered(received) == [0.5]
    received.clear()

    @jax.custom_vjp
    def g(x):
        return x

    g.defvjp(lambda x: (x, None), lambda _, ct: (callout.tap(received.tap, ct),))
    assert float(jax.jit(jax.grad(lambda x: g(x) * 7))(1.0)) == 7
    assert delivered(received) == [7]


def test_a_tap_in_a_linear_rule_gets_the_cotangent():
    got = []

    @jax.custom_jvp
    def f(x):
        return x

    def receive(value, *, transforms):
        got.append((float(value), transforms))

    f.defjvp(lambda primals, tangents: (f(*primals), callout.tap(receive, tangents[0], with_transforms=True) * 3))
    assert float(jax.jit(jax.grad(f))(1.0)) == 3
    callout.barrier_wait()
    assert got[-1] == (3.0, (("transpose", {}),))


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(4)
def test_with_device():
    got = []
    f = lambda x: callout.tap(lambda v, *, device: got.append(device), x, with_device=True)  # noqa: E731
    f(jnp.float32(1))
    jax.jit(f)(jax.device_put(jnp.float32(1), jax.devices()[1]))
    callout.barrier_wait()
    assert got == jax.devices()[:2]


@pytest.mark.native_only(platforms.DEVICE)
def test_nonarray_arguments_reach_functions_of_jax_arrays_unchanged():
    got = []

    def look(value, *, device, index, transforms):
        got.append((isinstance(value, jax.Array), device, index, transforms))

    chosen = callout.options(look, args="jax")
    f = lambda x: callout.tap(chosen, x, with_device=True, with_index=True, with_transforms=True)  # noqa: E731
    jax.jit(jax.vmap(f))(jnp.zeros(3))
    callout.barrier_wait()
    assert got == [(True, jax.devices()[0], (slice(0, 3),), (("batch", {"batch_dims": (0,)}),))]


def program_without_tap(hlo):
    """Returns HLO text without the tap, and without names and numbers."""
    lines = [line for line in hlo.splitlines() if "callout.v1.tap" not in line]
    text = re.sub(r"metadata=\{[^}]*\}|, sharding=\{[^}]*\}", "", "\n".join(lines))
    body = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("HloModule", "FileNames"))
    ]
    return sorted(re.sub(r"%?[\w.-]+ =", "=", re.sub(r"%[\w.-]+", "%", line)) for line in body)


@pytest.mark.native_only(platforms.TEXT)
def test_the_rest_of_the_program_is_unchanged():
    sink = callout.sinks.Null()

    def f(x, tap):
        y = tap(jnp.tanh(x @ x))
        return lax.fori_loop(0, 5, lambda i, c: tap(jnp.sin(c) * 2 + y), y).sum(), x[
            0
        ]  # two results, because test_held_results.py tests programs of one

    x = jnp.ones((8, 8))
    tapped = jax.jit(lambda x: f(x, lambda v: callout.tap(sink, v))).lower(x)
    plain = jax.jit(lambda x: f(x, lambda v: v)).lower(x)

    def stablehlo(lowered):
        lines = [line for line in lowered.as_text().splitlines() if "callout.v1.tap" not in line]
        return [re.sub(r"%[\w#:]+|@\w+|loc\(.*?\)", "", line) for line in lines]

    assert stablehlo(tapped) == stablehlo(plain)
    assert "callout.v1.tap" in tapped.compile().as_text()
    assert float(tapped.compile()(x)[0]) == float(plain.compile()(x)[0])


def test_every_and_min_interval_are_decided_in_the_program(received):
    def receive_some(value):
        received.append(value)

    f = jax.jit(lambda x: lax.fori_loop(0, 10, lambda i, c: callout.tap(receive_some, c, every=3) + 1, x))
    f(0.0)
    assert delivered(received) == [0, 3, 6, 9]
    f(0.0)  # the tap's 11th pass and later ones: the count goes on
    assert delivered(received) == [0, 3, 6, 9, 2, 5, 8]
    received.clear()
    jax.jit(lambda x: lax.fori_loop(0, 100, lambda i, c: callout.tap(receive_some, c, min_interval=3600) + 1, x))(0.0)
    assert delivered(received) == [0]
    label = next(label for label in callout.stats()["callbacks"] if "receive_some" in label)
    assert callout.stats()["callbacks"][label]["skips"] >= 13 + 99


def test_eager_every_counts_over_calls(received):
    def receive(value):
        received.append(value)

    for i in range(7):
        callout.tap(receive, jnp.float32(i), every=3)
    assert delivered(received) == [0, 3, 6]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"every": 0}, ValueError, "every must be an integer of at least 1, got 0"),
        ({"min_interval": -1}, ValueError, "min_interval must be 0 or more seconds"),
        ({"on_full": "explode"}, ValueError, "on_full must be one of"),
        ({"sharding": "both"}, ValueError, "sharding must be"),
        ({"device_index": -1}, ValueError, "device_index must be an integer of at least 0, got -1"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        callout.tap(print, 1.0, **arguments)


def test_bad_targets_and_values_are_named():
    with pytest.raises(TypeError, match="expected a callable, a sink or the name"):
        callout.tap(3, 1.0)
    with pytest.raises(TypeError, match=r"callout.tap: a value must be a pytree of arrays .*got 'text'"):
        callout.tap(print, "text")


@pytest.mark.devices(2)
def test_shard_map_taps_each_shard(received):
    mesh = jax.make_mesh((2,), ("d",))
    f = jax.jit(
        jax.shard_map(lambda x: callout.tap(received.tap, x), mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    )
    sharded = jax.device_put(jnp.arange(4.0), jax.sharding.NamedSharding(mesh, jax.P("d")))
    np.testing.assert_array_equal(f(sharded), np.arange(4.0))
    callout.barrier_wait()
    assert sorted(floats(received)) == [[0, 1], [2, 3]]


def test_unused_keywords_are_rejected():
    with pytest.raises(TypeError, match="not for names and sinks"):
        callout.tap(callout.sinks.Null(), 1.0, with_device=True)


def test_leaf_names_with_newlines(tmp_path):
    sink = callout.sinks.JsonLines(tmp_path / "x", fields=False)
    jax.jit(lambda x: callout.tap(sink, {"a\nb": x, "name": x}))(1.0)
    callout.barrier_wait()
    assert (tmp_path / "x").read_text() == '{"name": "json_lines", "a\\\\nb": 1, "value.name": 1}\n'


def test_bytes_are_the_operands():
    sink = callout.sinks.Null(name="bytes of operands")
    jax.jit(lambda x: callout.tap(sink, x))(jnp.zeros(100))
    callout.tap(sink, jnp.zeros(10), every=2)
    callout.tap(sink, jnp.zeros(10), every=2)
    callout.barrier_wait()
    stats = callout.stats()["callbacks"]["bytes of operands"]
    assert (stats["calls"], stats["bytes"], stats["skips"]) == (2, 440, 1)


def test_an_interrupt_in_a_tap_reaches_the_barrier():
    def receive(value):
        raise SystemExit(3)

    callout.tap(receive, 1.0)
    with pytest.raises(callout.TapError) as info:
        callout.barrier_wait()
    assert isinstance(info.value.__cause__, SystemExit)
    assert isinstance(info.value.exceptions.exceptions[0], SystemExit)


@pytest.mark.devices(4)
def test_eager_sharded_values_stay_where_they_are(received):
    mesh = jax.make_mesh((4,), ("d",))
    x = jax.device_put(jnp.arange(4.0), jax.sharding.NamedSharding(mesh, jax.P("d")))
    assert callout.tap(received.tap, x) is x
    y = callout.pure_callback(lambda v: v, jax.ShapeDtypeStruct((4,), "float32"), x)
    assert y.devices() == x.devices()  # like a jit's result
    assert delivered(received) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", [1]])
def test_a_bad_timeout_is_named(timeout):
    message = f"timeout must be None or 0 or more seconds, got {timeout!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        callout.barrier_wait(timeout=timeout)


def test_the_thread_that_delivers_has_a_name():
    names = []
    callout.tap(lambda _: names.append(threading.current_thread().name), 1.0)
    callout.barrier_wait()
    assert re.fullmatch(r"callout-python\d+", names[0])
