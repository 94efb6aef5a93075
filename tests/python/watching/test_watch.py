# SPDX-License-Identifier: Apache-2.0
"""Tests watch: its findings, their reported place, and that nothing else changes."""

import logging
import re

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import platforms
import pytest
from jax import lax


@pytest.fixture
def name(request):
    return request.node.name


def seen(name):
    if platforms.ON_CUDA:
        callout.barrier_wait()  # a watched value is in flight when its program has ended
    return callout.stats()["watches"][name]


def test_an_overflow_in_a_loop_is_located(name):
    @jax.jit
    def grow(x):
        return lax.fori_loop(0, 100, lambda i, x: callout.watch(x * jnp.array([1.0, 10.0]), name, step=i), x)

    out = jax.block_until_ready(grow(jnp.ones(2)))
    assert np.isinf(out[1])
    watched = seen(name)
    assert (watched["calls"], watched["elements"], watched["nan"]) == (100, 200, 0)
    assert watched["inf"] == watched["bad_calls"] == 62
    first = watched["first"]
    assert (first["step"], first["index"], first["kind"]) == (38, (1,), "inf")
    assert (first["device"], first["shape"], first["shard"], first["leaf"]) == (0, "f32[2]", None, "")


def test_trees_and_leaves_without_nan(name):
    value = {"w": jnp.array([[1.0, jnp.nan]]), "n": jnp.arange(3), "b": (True, 2.5), "k": jax.random.key(0)}
    out = jax.jit(lambda v: callout.watch(v, name))(value)
    assert jax.tree.structure(out) == jax.tree.structure(value)
    jax.block_until_ready(out)
    assert seen(name)["elements"] == 3
    assert (seen(name)["first"]["leaf"], seen(name)["first"]["index"]) == ("w", (0, 1))
    assert callout.watch({"n": 1, "none": None}, name) == {"n": 1, "none": None}


@pytest.mark.parametrize("dtype", [np.float16, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_eager_arrays_of_many_dtypes(name, dtype):
    values = np.zeros((3, 4), dtype)
    callout.watch(values, name)
    values[2, 1] = np.nan
    out = callout.watch(values, name)
    assert out.dtype == dtype
    np.testing.assert_array_equal(np.isnan(np.asarray(out, np.complex64)), np.isnan(np.asarray(values, np.complex64)))
    assert (seen(name)["nan"], seen(name)["first"]["index"], seen(name)["first"]["step"]) == (1, (2, 1), 1)


def test_only_selected_kinds_are_found(name):
    x = jnp.array([jnp.inf, jnp.nan])
    callout.watch(x, name + "n", inf=False)
    callout.watch(x, name + "i", nan=False)
    callout.watch(jnp.array([jnp.inf]), name + "0", inf=False)
    assert seen(name + "n")["first"]["kind"] == "nan"
    assert seen(name + "i")["first"]["kind"] == "inf"
    assert seen(name + "0")["first"] is None
    assert seen(name + "0")["inf"] == 1


@pytest.mark.cpu_only("on CUDA the value arrives when the program is past the watch: test_gpu_taps.py")
def test_stop_fails_the_program_with_all_that_is_known(name):
    @jax.jit
    def f(x, i):
        return callout.watch(jnp.log(x), name, stop=True, step=i)

    np.testing.assert_allclose(f(jnp.ones((2, 3)), 6), np.zeros((2, 3)))
    bad = jnp.ones((2, 3)).at[1, 2].set(-1)
    text = (
        f"watch '{name}': 1 NaN and 0 infinite elements in step 7; the first is a NaN, at [1,2], f32[2,3], on device 0"
    )
    for _ in range(2):
        with pytest.raises(callout.NonFiniteError, match=re.escape(text)), callout.reraise():
            jax.block_until_ready(f(bad, 7))
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(text)) as caught:
        jax.block_until_ready(f(bad, 7))
    assert isinstance(caught.value, FloatingPointError)
    with pytest.raises(callout.NonFiniteError, match=re.escape(text)):
        callout.watch(jnp.log(bad), name, stop=True, step=7)
    np.testing.assert_allclose(f(jnp.ones((2, 3)), 8), np.zeros((2, 3)))


def test_the_first_is_logged_once(name, caplog):
    f = jax.jit(lambda x: callout.watch(x, name))
    with caplog.at_level(logging.WARNING, "callout"):
        for _ in range(3):
            jax.block_until_ready(f(jnp.nan))
        callout.barrier_wait()
    assert [record.message for record in caplog.records if name in record.message] == [
        f"watch '{name}': 1 NaN and 0 infinite elements in step 0; the first is a NaN, at [], f32[], on device 0"
    ]


def test_vmap_grad_and_remat(name):
    def f(x):
        return callout.watch(x * 2, name) ** 2

    x = jnp.ones((3, 2)).at[2, 0].set(jnp.inf)
    jax.block_until_ready(jax.jit(jax.vmap(f))(x))
    assert seen(name)["first"]["index"] == (2, 0)
    assert float(jax.jit(jax.grad(f))(3.0)) == 24
    assert float(jax.grad(jax.checkpoint(f))(3.0)) == 24


def test_gradients_are_watched(name):
    def loss(x, i):
        return jnp.sum(jnp.sqrt(callout.watch(x, name, gradient=True, step=i)))

    step = jax.jit(jax.grad(loss))
    jax.block_until_ready(step(jnp.ones(3), 0))
    jax.block_until_ready(step(jnp.array([1.0, 0.0, 1.0]), 1))
    assert seen(name)["first"] is None
    first = seen(f"{name}.gradient")["first"]
    assert (first["step"], first["index"], first["kind"]) == (1, (1,), "inf")
    tangent = jax.jvp(lambda x: callout.watch(x, name, gradient=True), (1.0,), (jnp.inf,))[1]
    assert np.isinf(tangent)
    assert seen(f"{name}.gradient")["bad_calls"] == 2


def test_every_selects_checks_and_steps_still_count(name):
    f = jax.jit(lambda xs: lax.scan(lambda c, x: (c, callout.watch(x, name, every=4)), 0, xs)[1])
    jax.block_until_ready(f(jnp.arange(20.0).at[jnp.array([3, 12])].set(jnp.nan)))
    assert seen(name)["calls"] == 5
    assert seen(name)["first"]["step"] == 12


@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.devices(4)
def test_each_device_looks_at_its_shard(name):
    devices = jax.devices()[:4]
    mesh = jax.sharding.Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
    x = jax.device_put(jnp.ones((4, 6)).at[3, 4].set(jnp.nan), jax.NamedSharding(mesh, jax.P("a", "b")))
    f = jax.jit(lambda x: callout.watch(x, name) + 1)
    assert f(x).sharding == x.sharding
    jax.block_until_ready(f(x))
    assert seen(name)["elements"] == 2 * 24
    first = seen(name)["first"]
    assert (first["index"], first["shard"], first["device"], first["shape"]) == (
        (3, 4),
        (2, 3),
        devices[3].id,
        "f32[2,3]",
    )


@pytest.mark.native_only(platforms.SEVERAL)
@pytest.mark.devices(4)
@pytest.mark.collectives
def test_stop_over_several_devices_fails_on_all_of_them(name):
    devices = jax.devices()[:4]
    mesh = jax.sharding.Mesh(np.array(devices), ("d",))
    x = jax.device_put(jnp.ones(8), jax.NamedSharding(mesh, jax.P("d")))
    f = jax.jit(lambda x: jnp.sum(callout.watch(x, name, stop=True)))
    assert float(f(x)) == 8
    with pytest.raises(callout.NonFiniteError, match=rf"watch '{name}': 1 NaN .* at \[5\]"), callout.reraise():
        jax.block_until_ready(f(x.at[5].set(jnp.nan)))
    with pytest.raises(callout.NonFiniteError, match="2 NaN"), callout.reraise():
        jax.block_until_ready(f(x * jnp.nan))
    assert float(f(x)) == 8


@pytest.mark.cpu_only("on CUDA the value arrives when the program is past the watch: test_gpu_taps.py")
def test_exports_without_a_name(name):
    exported = callout.export(jax.jit(lambda x: callout.watch(x, name, stop=True) + 1))(jnp.zeros(3))
    assert callout.exported_names(exported) == ()
    with pytest.raises(callout.NonFiniteError), callout.reraise():
        jax.block_until_ready(exported.call(jnp.array([0, jnp.nan, 0])))
    assert seen(name)["first"]["index"] == (1,)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"nan": False, "inf": False}, "leave nothing to look for"),
        ({"name": ""}, "name must be a text of one line, got ''"),
        ({"name": 3}, "name must be a text of one line, got 3"),
        ({"every": 0}, "every must be an integer of at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        callout.watch(1.0, **arguments)


def test_after_a_reset_the_first_bad_value_is_logged_again(name, caplog):
    f = jax.jit(lambda x: callout.watch(x, name) + callout.watch(x, name + " too"))
    logged = []
    for names in ([name], [None], []):
        jax.block_until_ready(f(jnp.array([1.0, jnp.nan])))
        callout.barrier_wait()
        logged.append(sum(f"watch '{name}'" in record.getMessage() for record in caplog.records))
        assert seen(name)["bad_calls"] == 1
        for each in names:
            callout.watch.reset(each)
            assert callout.stats()["watches"].get(name, {"calls": 0})["calls"] == 0
            assert (callout.stats()["watches"].get(name + " too", {"calls": 0})["calls"] == 0) == (each is None)
    assert logged == [1, 2, 3]
