# SPDX-License-Identifier: Apache-2.0
"""Tests that io_callback runs once each time the program reaches it, and is never dropped, merged or hoisted."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

F32 = jax.ShapeDtypeStruct((), jnp.float32)
ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])


class Counter:
    """A callback with a side effect that can be counted."""

    def __init__(self):
        self.seen = []

    def __call__(self, x):
        self.seen.append(float(x))
        return np.float32(len(self.seen))

    def bump(self, x, ordered=False):
        return callout.io_callback(self, F32, x, ordered=ordered)


@pytest.fixture
def counter():
    return Counter()


@ORDERED
def test_eager_and_jit_return_the_results(counter, ordered):
    assert float(counter.bump(jnp.float32(5), ordered)) == 1
    f = jax.jit(lambda x: counter.bump(x, ordered) * 10)
    assert [float(f(x)) for x in (6.0, 7.0)] == [20, 30]
    assert counter.seen == [5, 6, 7]


@ORDERED
def test_an_unused_result_is_computed_all_the_same(counter, ordered):
    def f(x):
        counter.bump(x, ordered)
        return x + 1

    assert float(jax.jit(f)(1.0)) == 2
    assert float(jax.jit(lambda x: jax.jit(f)(x))(2.0)) == 3
    assert float(lax.scan(lambda c, _: (f(c), None), jnp.float32(3), length=2)[0]) == 5
    jax.effects_barrier()
    assert counter.seen == [1, 2, 3, 4]


@ORDERED
def test_equal_calls_are_not_merged(counter, ordered):
    out = jax.jit(lambda x: (counter.bump(x, ordered), counter.bump(x, ordered)))(1.0)
    assert sorted(map(float, out)) == [1, 2]


@ORDERED
def test_an_invariant_call_is_not_hoisted_out_of_its_loop(counter, ordered):
    f = jax.jit(lambda x: lax.fori_loop(0, 5, lambda _, c: c + counter.bump(x, ordered), jnp.float32(0)))
    assert float(f(2.0)) == 15
    assert counter.seen == [2] * 5


@ORDERED
def test_control_flow(counter, ordered):
    def f(x):
        y = lax.cond(x > 0, lambda v: counter.bump(v, ordered), lambda v: v, x)
        z = lax.switch(jnp.int32(1), [lambda v: v, lambda v: counter.bump(v, ordered)], y)
        return lax.while_loop(lambda c: counter.bump(c, ordered) < 5, lambda c: c + 1, z)

    jax.block_until_ready(jax.jit(f)(9.0))
    assert counter.seen == [9, 1, 2, 3, 4]


def test_none_and_pytrees_are_results():
    seen = []
    f = jax.jit(lambda x: callout.io_callback(lambda a, *, scale: seen.append(float(a * scale)), None, x, scale=x))
    assert f(3.0) is None
    shapes = {"a": F32, "b": (jax.ShapeDtypeStruct((2,), jnp.int32),)}
    out = jax.jit(lambda x: callout.io_callback(lambda v: {"a": v, "b": (np.array([1, 2], np.int32),)}, shapes, x))(1.0)
    jax.effects_barrier()
    assert seen == [9]
    assert jax.tree.map(np.ndarray.tolist, jax.tree.map(np.asarray, out)) == {"a": 1.0, "b": ([1, 2],)}


@pytest.mark.parametrize("result", [1, (), "text"], ids=str)
def test_a_result_where_none_was_declared_is_an_error(result):
    f = jax.jit(lambda x: callout.io_callback(lambda _: result, None, x))
    if result == ():  # () has no leaves, as None has none, and JAX accepts it
        f(1.0)
        return

    def run():
        jax.block_until_ready(f(1.0))
        jax.effects_barrier()

    with pytest.raises(callout.ResultError, match=r"expected structure .*None"), callout.reraise():
        run()


def test_effects_barrier_waits(counter):
    f = jax.jit(lambda x: callout.io_callback(callout.options(counter, numpy_only=True), F32, x))
    for i in range(20):
        f(float(i))
    jax.effects_barrier()
    assert counter.seen == list(range(20))


def test_vmap_calls_once_a_lane_in_order(counter):
    out = jax.vmap(counter.bump)(jnp.arange(4.0))
    np.testing.assert_array_equal(out, [1, 2, 3, 4])
    assert counter.seen == [0, 1, 2, 3]
    both = jax.vmap(jax.vmap(lambda x, y: counter.bump(x + y), in_axes=(0, None)), in_axes=(None, 0))
    assert both(jnp.arange(2.0), jnp.arange(3.0)).shape == (3, 2)
    assert counter.seen[4:] == [0, 1, 2, 1, 2, 3]  # the inner vmap's lanes are the outer loop, as with JAX


def test_vmap_of_ordered_is_refused_as_jax_does(counter):
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        jax.vmap(lambda x: counter.bump(x, ordered=True))(jnp.arange(2.0))


@pytest.fixture
def unpatched():
    callout.config.patch_batching = False
    yield
    callout.config.patch_batching = True


@ORDERED
@pytest.mark.usefixtures("unpatched")
def test_vmap_that_runs_both_branches_is_rejected_without_the_patch(counter, ordered):
    def f(x, p):
        return lax.cond(p, lambda: counter.bump(jnp.float32(0), ordered) + x, lambda: x)

    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        jax.vmap(f)(jnp.arange(2.0), jnp.array([True, False]))
    with pytest.raises(Exception, match=r"IO effects not supported|Cannot `vmap` ordered"):
        jax.vmap(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + counter.bump(c, ordered), 0.0))(
            jnp.arange(2.0)
        )


def test_vmap_of_a_cond_with_one_predicate_for_all(counter):
    f = jax.jit(jax.vmap(lambda x, p: lax.cond(p, lambda: counter.bump(x) + x, lambda: x), in_axes=(0, None)))
    assert f(jnp.arange(2.0), True).tolist() == [1, 3]
    assert f(jnp.arange(2.0), False).tolist() == [0, 1]
    assert counter.seen == [0, 1]


def test_derivatives_are_refused_with_the_remedy(counter):
    with pytest.raises(ValueError, match=r"IO callbacks do not support JVP.*custom_jvp"):
        jax.grad(counter.bump)(1.0)


def test_a_call_survives_a_gradient_that_ignores_it(counter):
    def body(c, x):
        counter.bump(lax.stop_gradient(x))
        return c * x, None

    grad = jax.jit(jax.grad(lambda xs: lax.scan(body, 1.0, xs)[0]))
    np.testing.assert_allclose(grad(jnp.array([2.0, 3.0])), [3, 2])
    jax.effects_barrier()
    assert counter.seen == [2, 3]


def test_remat_is_refused_as_jax_does(counter):
    f = jax.checkpoint(lambda x: jnp.sin(x) * counter.bump(lax.stop_gradient(x)))
    with pytest.raises((NotImplementedError, ValueError), match=r"[Ee]ffects not supported"):
        jax.grad(f)(1.0)


@ORDERED
def test_an_exception_reaches_the_caller(ordered):
    def boom(_):
        raise KeyError("lost")

    f = jax.jit(lambda x: callout.io_callback(boom, F32, x, ordered=ordered))
    for _ in range(3):
        with pytest.raises(KeyError, match="lost"), callout.reraise():
            jax.block_until_ready(f(1.0))
    with pytest.raises(KeyError, match="lost"):
        callout.io_callback(boom, F32, 1.0, ordered=ordered)


def test_registered_names_are_called():
    callout.register("test.io.double", lambda x: x * 2)
    try:
        f = jax.jit(lambda x: callout.io_callback("test.io.double", F32, x, ordered=True))
        assert float(f(3.0)) == 6
    finally:
        callout.unregister("test.io.double")


@pytest.mark.devices(2)
def test_several_devices_are_not_named_by_a_sharding():
    mesh = jax.make_mesh((2,), ("d",))
    with pytest.raises(NotImplementedError, match=r"callout\.io_callback supports only SingleDeviceSharding"):
        callout.io_callback(print, None, 1.0, sharding=jax.NamedSharding(mesh, jax.P("d")))
