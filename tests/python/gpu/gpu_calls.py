# SPDX-License-Identifier: Apache-2.0
"""Tests calls with results on CUDA. test_gpu_calls.py runs this file on the driver's double, in a process of its own."""

import threading

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from gpu_double import ON_DOUBLE, calls, fail
from jax import lax

assert ON_DOUBLE or platforms.ON_CUDA

F32 = jax.ShapeDtypeStruct((), jnp.float32)
X = jnp.arange(6, dtype=jnp.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def double(x):
    return 2 * x


def call_double(x):
    return callout.pure_callback(double, like(x), x)


@pytest.fixture
def counted():
    """Returns a function that counts the calls of a driver function since the test began."""
    before = {name: calls(name) for name in ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemHostAlloc")}
    return lambda name: calls(name) - before[name]


@pytest.mark.cpu_only(platforms.COUNTED)
def test_operands_and_results_are_copied(counted):
    def both(a, b):
        return a + b, a.sum()

    f = jax.jit(lambda x: callout.pure_callback(both, (like(x), F32), x, x))
    total, number = f(X)
    np.testing.assert_array_equal(total, 2 * np.arange(6))
    assert number == 15
    assert counted("cuMemcpyDtoHAsync") == 2
    assert counted("cuMemcpyHtoDAsync") == 2


@pytest.mark.cpu_only(platforms.COUNTED)
def test_later_rounds_of_a_loop_pin_no_more_memory(counted):
    f = jax.jit(lambda x: lax.fori_loop(0, 100, lambda _, c: call_double(c) / 2 + 1, x))
    np.testing.assert_array_equal(f(X), np.arange(6) + 100)
    assert counted("cuMemcpyDtoHAsync") == 100
    assert counted("cuMemHostAlloc") <= 2


@pytest.mark.cpu_only(platforms.COUNTED)
def test_empty_arrays_are_not_copied(counted):
    f = jax.jit(lambda x: callout.pure_callback(lambda v: (v, np.float32(len(v))), (like(x), F32), x))
    empty, length = f(jnp.zeros((0, 3), jnp.float32))
    assert empty.shape == (0, 3)
    assert length == 0
    assert (counted("cuMemcpyDtoHAsync"), counted("cuMemcpyHtoDAsync")) == (0, 1)
    assert jax.jit(lambda: callout.pure_callback(lambda: np.float32(3), F32))() == 3


def test_arguments_belong_to_the_callback(received):
    f = jax.jit(lambda x: callout.pure_callback(lambda v: (received.append(v), v)[1], like(x), x))
    for i in range(3):
        f(X + i)
    np.testing.assert_array_equal(received, [np.arange(6) + i for i in range(3)])


def test_views_of_pinned_memory_on_demand():
    def check(v):
        assert not v.flags.owndata
        assert not v.flags.writeable
        return v + np.float32(1)

    f = jax.jit(lambda x: callout.pure_callback(callout.options(check, zero_copy=True), like(x), x))
    np.testing.assert_array_equal(f(X), np.arange(6) + 1)
    kept = []
    keep = callout.options(lambda v: (kept.append(v), v)[1], zero_copy=True)
    with pytest.raises(Exception, match="zero_copy"):
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(keep, like(x), x))(X))


@pytest.mark.parametrize(
    ("function", "code", "name"),
    [
        ("cuMemcpyDtoHAsync", 1, "CUDA_ERROR_INVALID_VALUE"),
        ("cuStreamWriteValue32", 400, "CUDA_ERROR_INVALID_HANDLE"),
        ("cuMemcpyHtoDAsync", 999, "CUDA_ERROR_UNKNOWN"),
    ],
)
def test_driver_errors_fail_the_program_and_the_next_run_works(function, code, name):
    compiled = jax.jit(call_double).lower(X).compile()
    np.testing.assert_array_equal(compiled(X), 2 * np.arange(6))
    fail(function, 1, code)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=rf"{function} of callback 'gpu_calls.double'.*{name} \({code}\)"
    ):
        jax.block_until_ready(compiled(X))
    np.testing.assert_array_equal(compiled(X), 2 * np.arange(6))


@pytest.mark.cpu_only(platforms.COUNTED)
def test_a_failed_pinning_reports_the_requested_size():
    compiled = jax.jit(call_double).lower(jnp.ones(1_000_003, jnp.float32)).compile()
    for nth in (1, 2):
        fail("cuMemHostAlloc", nth, 2)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"no pinned memory for the \d+ bytes.*OUT_OF_MEMORY \(2\)"):
        jax.block_until_ready(compiled(jnp.ones(1_000_003, jnp.float32)))


def test_an_exception_is_itself_again_and_nothing_is_copied_back(counted):
    def refuse(v):
        raise KeyError("refused")

    with pytest.raises(KeyError, match="refused"), callout.reraise():
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(refuse, like(x), x))(X))
    assert counted("cuMemcpyHtoDAsync") == 0


def test_a_callback_may_use_the_device_it_is_called_from():
    def inner(v):
        return np.asarray(jax.jit(call_double)(jnp.asarray(v)) + 1)

    f = jax.jit(lambda x: callout.pure_callback(inner, like(x), x))
    np.testing.assert_array_equal(f(X), 2 * np.arange(6) + 1)


@pytest.mark.collectives
def test_a_call_over_devices_gathers_and_returns_to_all(counted):
    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[:4])
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    x = jax.device_put(jnp.arange(8, dtype=jnp.float32), spread)
    f = jax.jit(lambda x: callout.pure_callback(np.cumsum, like(x), x), out_shardings=spread)
    np.testing.assert_array_equal(f(x), np.cumsum(np.arange(8)))
    assert counted("cuMemcpyDtoHAsync") == 1 + 4  # the value, and each device's failure flag

    def refuse(v):
        raise ValueError("refused")

    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: refused"):
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(refuse, like(x), x))(x))


@pytest.mark.devices(4)
def test_devices_call_at_once():
    barrier = threading.Barrier(4, timeout=60)

    def meet(v):
        barrier.wait()
        return v + np.float32(1)

    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[:4])
    spec = jax.sharding.PartitionSpec("i")
    f = jax.jit(
        jax.shard_map(lambda x: callout.pure_callback(meet, like(x), x), mesh=mesh, in_specs=spec, out_specs=spec)
    )
    x = jax.device_put(jnp.arange(4, dtype=jnp.float32), jax.sharding.NamedSharding(mesh, spec))
    np.testing.assert_array_equal(f(x), np.arange(4) + 1)


@pytest.mark.devices(4)
def test_threads_run_one_program_on_several_devices():
    compiled = [jax.jit(call_double).lower(jax.device_put(X, d)).compile() for d in jax.devices()[:4]]
    results = [None] * 8

    def run(i):
        x = jax.device_put(X + i, jax.devices()[i % 4])
        results[i] = [np.asarray(compiled[i % 4](x)) for _ in range(20)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, outs in enumerate(results):
        np.testing.assert_array_equal(outs, np.broadcast_to(2 * (np.arange(6) + i), (20, 6)))


def test_order_by_tokens_and_by_data(received):
    def f(x):
        for i in range(3):
            x = callout.io_callback(lambda v, i=i: (received.append(i), v)[1], F32, x, ordered=True)
        callout.debug_callback(lambda v: received.append("end"), x, ordered=True)
        return x

    assert jax.jit(f)(jnp.float32(1)) == 1
    jax.effects_barrier()
    assert received == [0, 1, 2, "end"]
    received.clear()
    assert jax.jit(callout.threaded(f))(jnp.float32(1)) == 1
    callout.barrier_wait()
    assert received == [0, 1, 2, "end"]


def test_registered_names_and_statistics():
    callout.register("gpu.double", double)
    try:
        f = jax.jit(lambda x: callout.pure_callback("gpu.double", like(x), x))
        np.testing.assert_array_equal(f(X), 2 * np.arange(6))
        assert callout.stats()["callbacks"]["gpu.double"]["calls"] == 1
    finally:
        callout.unregister("gpu.double")
