# SPDX-License-Identifier: Apache-2.0
"""Tests values that the host changes while programs read them."""

import copy
import pickle
import threading

import callout
import failing
import jax
import jax.numpy as jnp
import meshes
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

pytestmark = [
    pytest.mark.native_only("programs read values by a handler of XLA FFI"),
]


def lists(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), tree)


def test_a_program_reads_the_last_value():
    rate = callout.HostValue(0.5)
    step = jax.jit(lambda rate, w: w - rate.get())
    assert float(step(rate, 2.0)) == 1.5
    rate.set(0.25)
    assert float(step(rate, 2.0)) == 1.75
    assert rate.get() == np.float32(0.25)
    assert step._cache_size() == 1
    assert float(step(callout.HostValue(1.0), 2.0)) == 1
    assert step._cache_size() == 1


def test_a_loop_reads_in_each_step():
    value, begun = callout.HostValue(0), threading.Event()

    @jax.jit
    def wait(value):
        def step(i):
            return callout.tap(lambda _: begun.set(), i, step=i, every=1000) + 1

        return lax.while_loop(lambda i: value.get() == 0, step, 1)

    def change():
        assert begun.wait(timeout=60)
        value.set(1)

    thread = threading.Thread(target=change)
    thread.start()
    assert int(wait(value)) > 1000
    thread.join()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float32", "bfloat16", "float8_e4m3fn", "complex64"])
def test_dtypes(dtype):
    value = callout.HostValue({"x": jnp.ones((2, 3), dtype), "y": (jnp.zeros((), dtype),)})
    out = jax.jit(lambda value: value.get())(value)
    assert lists(out) == lists(value.get())
    assert {leaf.dtype.name for leaf in jax.tree.leaves(out)} == {dtype}


def test_an_empty_array():
    assert jax.jit(lambda value: value.get())(callout.HostValue(jnp.zeros((0, 3)))).shape == (0, 3)


def test_arrays_of_one_reading_belong_together():
    value, done = callout.HostValue((0, jnp.zeros(1000, jnp.int32))), threading.Event()

    def change():
        for i in range(1, 10_000):
            if done.is_set():
                break
            value.set((i, jnp.full(1000, i, jnp.int32)))

    thread = threading.Thread(target=change)
    thread.start()

    @jax.jit
    def torn(value):
        def step(_, count):
            one, many = value.get()
            return count + (many != one).sum()

        return lax.fori_loop(0, 2000, step, 0)

    count = int(torn(value))
    done.set()
    thread.join()
    assert count == 0


class TestSet:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"a": 1.0}, "expected the structure PyTreeDef"),
            ({"a": 1.0, "b": np.ones(4, np.float32)}, r"expected float32\[3\] at \['b'\], got float32\[4\]"),
            (
                {"a": 1j, "b": np.ones(3, np.int32)},
                r"expected float32\[\] at \['a'\], got complex64\[\]; expected float32\[3\] at \['b'\], got int32\[3\]",
            ),
        ],
        ids=["structure", "shape", "dtype"],
    )
    def test_the_form_stays(self, value, text):
        there = callout.HostValue({"a": 0.5, "b": np.zeros(3, np.float32)})
        with pytest.raises(ValueError, match=rf"callout\.HostValue\.set: {text}"):
            there.set(value)
        assert there.get()["a"] == 0.5

    def test_numbers_get_the_dtype(self):
        for dtype, number in (("bfloat16", 1), ("int8", 3), ("complex64", 1.5), ("bool", True)):
            value = callout.HostValue(jnp.zeros((), dtype))
            value.set(number)
            assert value.get().dtype == dtype
            assert value.get() == number
        with pytest.raises(ValueError, match=r"expected int32\[\], got float32\[\]"):
            callout.HostValue(1).set(0.5)

    def test_setting_in_a_program_is_refused(self):
        value = callout.HostValue(1.0)
        with pytest.raises(TypeError, match=r"callout\.HostValue\.set\(\) inside a function that JAX traces"):
            jax.jit(lambda value: value.set(2.0))(value)

    def test_nonarray_values_are_rejected(self):
        with pytest.raises(TypeError, match=r"callout\.HostValue: the value must be a pytree of arrays"):
            callout.HostValue("text")
        with pytest.raises(ValueError, match="must have at least one array"):
            callout.HostValue({})
        with pytest.raises(TypeError, match="less than a byte"):
            callout.HostValue(jnp.ones(2, jnp.int4))


def test_copies_are_values_of_their_own():
    value = callout.HostValue({"a": 0.5})
    for other in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        value.set({"a": 2.0})
        assert other.get() == {"a": 0.5}
        value.set({"a": 0.5})
    assert repr(value).startswith("HostValue({'a':")


def test_a_batch_of_values_is_one_a_lane():
    values = [callout.HostValue(np.arange(2) + i) for i in range(3)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *values)
    assert jax.jit(jax.vmap(lambda value: value.get()))(batch).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_a_value_without_an_owner_is_gone():
    handle = jax.device_put(callout.HostValue(1.0), jax.devices()[0])
    callout.barrier_wait()
    with failing.fails("callout: HostValue: the object of this handle is gone"):
        jax.jit(lambda value: value.get())(handle)


def test_derivatives_stop_there():
    rate = callout.HostValue(2.0)
    assert float(jax.grad(lambda x: x * rate.get())(3.0)) == 2
    loop = jax.jit(jax.grad(lambda x, rate: lax.scan(lambda c, _: (c * rate.get(), None), x, length=3)[0]))
    assert float(loop(1.0, rate)) == 8
    assert float(jax.grad(jax.checkpoint(lambda x: x * rate.get()))(3.0)) == 2


@pytest.mark.devices(4)
@pytest.mark.collectives
def test_devices_read_the_same_in_the_same_step():
    value, mesh, done = callout.HostValue(0), meshes.mesh_of(4), threading.Event()

    def read(value):
        def step(i, sums):
            return sums.at[i].set(value.get())

        zeros = lax.pcast(jnp.zeros(2000, jnp.int32), "d", to="varying")
        return lax.fori_loop(0, 2000, step, zeros)[None]

    def change():
        i = 0
        while not done.is_set():
            value.set(i := i + 1)

    thread = threading.Thread(target=change)
    thread.start()
    seen = np.asarray(jax.jit(jax.shard_map(read, mesh=mesh, in_specs=P(), out_specs=P("d")))(value))
    done.set()
    thread.join()
    assert (seen == seen[0]).all()
