# SPDX-License-Identifier: Apache-2.0
"""Tests calls for which the devices of a process meet: shardings, order, and failures."""

import threading

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from meshes import grid, mesh_of, sharded

pytestmark = [
    pytest.mark.cpu_only("on CUDA the operands are collected by XLA"),
    pytest.mark.native_only("JAX's callbacks collect by XLA"),
]
ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
SPECS = [P(), P("a"), P(None, "a"), P("a", "b"), P("b", "a"), P(("a", "b")), P(None, ("b", "a"))]


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def counted(f):
    """Wraps `f`; returns the wrapper, and a list that grows by one at each call."""
    calls = []

    def count(*args):
        calls.append(1)
        return f(*args)

    return count, calls


def on_grid(x, spec, kind=AxisType.Auto):
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(kind,) * 2, devices=platforms.devices(4)[::-1])
    return jax.device_put(x, NamedSharding(mesh, spec))


@pytest.mark.parametrize("entry", ["pure_callback", "io_callback", "debug_callback", "tap"])
def test_a_gathered_call_needs_no_collective(entry):
    def f(x):
        if entry in ("debug_callback", "tap"):
            getattr(callout, entry)(print, x)
            return x
        return getattr(callout, entry)(np.sort, like(x), x)

    text = jax.jit(f).lower(sharded()).compile().as_text()
    assert "callout.v1.gathered_" in text
    assert "all-gather" not in text
    assert "all-reduce" not in text


def test_a_program_with_unknown_devices_gathers_through_xla(bind):
    """Uses an exported program for one device, whose values are not sharded."""
    one = callout.export(jax.jit(lambda x: callout.io_callback("test.sort", like(x), x)))(jnp.arange(4.0))
    bind("test.sort", returns=np.sort)
    replicated = jax.device_put(jnp.arange(4.0)[::-1], NamedSharding(mesh_of(4), P()))
    f = jax.jit(one.call)
    assert "callout.v1.gathered_" not in f.lower(replicated).compile().as_text()
    assert f(replicated).tolist() == [0, 1, 2, 3]
    assert len(bind) == 1


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_shards_of_any_sharding_are_one_array(spec, kind):
    x = np.arange(64, dtype=np.int16).reshape(8, 8)
    callback, calls = counted(lambda x, y: (x.T.copy(), np.float32(x[0, 1] * 1.5 + y.sum())))
    out = (jax.ShapeDtypeStruct((8, 8), np.int16), jax.ShapeDtypeStruct((), np.float32))
    y = on_grid(jnp.ones((4, 2, 6)), P("b", "a"), kind)

    @jax.jit
    def f(x, y):
        return callout.io_callback(callback, out, x, y)

    for times in range(1, 4):
        turned, total = f(on_grid(x, spec, kind), y)
        assert turned.dtype == np.int16
        np.testing.assert_array_equal(turned, x.T)
        assert float(total) == 49.5
        assert len(calls) == times
        assert all(np.array_equal(shard.data, x.T[shard.index]) for shard in turned.addressable_shards)


@pytest.mark.parametrize("dtype", ["bool", "int4", "float4_e2m1fn", "uint8", "bfloat16", "float32", "complex64"])
def test_shards_of_any_dtype(dtype):
    x = (jnp.arange(16) % 5).reshape(4, 4).astype(dtype)  # values that all of these dtypes have
    y = jax.jit(lambda v: callout.pure_callback(lambda a: a.T, like(v), v))(on_grid(x, P("a", "b")))
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x).T)


def test_empty_arrays_and_no_arrays():
    callback, calls = counted(lambda *args: np.float32(len(args)))
    scalar = jax.ShapeDtypeStruct((), np.float32)
    f = jax.jit(lambda x: x + callout.io_callback(callback, scalar) + callout.io_callback(callback, scalar, x[:, :0]))
    np.testing.assert_array_equal(f(grid()), np.asarray(grid()) + 1)
    assert len(calls) == 2


@ORDERED
def test_each_step_of_a_loop_calls_once_and_in_order(ordered):
    seen = []

    def step(x):
        seen.append(float(x.sum()))
        return x + 1

    def call(x):
        return callout.io_callback(step, like(x), x, ordered=ordered)

    def body(x, i):
        x = lax.cond(i % 3 == 0, call, lambda x: x, x)
        return lax.while_loop(lambda v: v.sum() < 16 * (i + 1), call, x), None

    x = on_grid(jnp.zeros((4, 4)), P("a", "b"))
    y = jax.jit(lambda x: lax.scan(body, x, jnp.arange(20.0))[0])(x)
    assert np.all(np.asarray(y) == 20)
    assert seen == [16.0 * i for i in range(20)]


def test_threaded_calls():
    seen = []

    @callout.threaded
    def f(x):
        callout.tap(lambda v: seen.append(float(v.sum())), x)
        return callout.io_callback(lambda v: v + 1, like(x), x, ordered=True)

    assert np.asarray(jax.jit(f)(sharded())).tolist() == list(range(1, 9))
    callout.barrier_wait(timeout=60)
    assert seen == [28.0]


def test_independent_calls_in_different_orders_do_not_deadlock():
    """XLA runs large independent calls on several threads, none of which may block."""
    count = 24
    callback, calls = counted(lambda x: x + 1)
    x = sharded(8, size=1 << 13)
    f = jax.jit(lambda x: sum(callout.io_callback(callback, like(x), x * i) for i in range(count)) + x.sum())
    whole = np.arange(1 << 13, dtype=np.float32)
    for times in range(1, 6):
        np.testing.assert_allclose(f(x), whole * (count * (count - 1) / 2) + count + whole.sum(), rtol=1e-6)
        assert len(calls) == times * count


def test_one_program_in_several_threads():
    x = sharded()
    f = jax.jit(lambda x: lax.fori_loop(0, 20, lambda _, v: callout.pure_callback(lambda a: a + 1, like(v), v), x))
    f(x).block_until_ready()
    results = []
    threads = [threading.Thread(target=lambda: results.append(np.asarray(f(x)).tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[20.0 + i for i in range(8)]] * 4


@pytest.mark.parametrize("device", range(4))
def test_a_device_that_fails_before_the_rendezvous_hangs_no_other(device):
    x = sharded()

    def fail(v, index):
        if index == device:
            raise KeyError("this one")
        return v

    def on_each(v):
        return callout.pure_callback(fail, like(v), v, lax.axis_index("d"))

    failing = jax.shard_map(on_each, mesh=x.sharding.mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    callback, calls = counted(lambda a: a)
    f = jax.jit(lambda x: callout.pure_callback(callback, like(x), failing(x) * 2))
    for _ in range(3):
        with pytest.raises(KeyError, match="this one"), callout.reraise():
            jax.block_until_ready(f(x))
    assert not calls
    good = jax.jit(lambda x: callout.pure_callback(callback, like(x), x))
    assert np.asarray(good(x)).tolist() == list(range(8)), "other runs do not mind"


def test_failing_calls_fail_on_all_devices_and_the_next_works():
    fail = True

    def callback(x):
        if fail:
            raise KeyError("no result")
        return x

    x = sharded()
    f = jax.jit(lambda x: callout.pure_callback(callback, like(x), x).sum() + x.sum())
    for _ in range(3):
        with pytest.raises(KeyError, match="no result"), callout.reraise():
            jax.block_until_ready(f(x))
    fail = False
    assert float(f(x)) == 56
