# SPDX-License-Identifier: Apache-2.0
"""Tests calls with options(memory="device") on CUDA. test_gpu_calls.py runs this file on the driver's double."""

import ctypes

import callout
import gpu_double
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._primitives import call
from double_memory import driver, seen
from gpu_double import calls, fail
from jax import lax

gpu_double.control()

# On JAX's fast path, from the second call on, an error is a ValueError.
FAILURES = (jax.errors.JaxRuntimeError, ValueError)
X = jnp.arange(3, dtype=jnp.float32)
F3 = jax.ShapeDtypeStruct((3,), jnp.float32)


@pytest.fixture(autouse=True)
def memory_of_its_own(monkeypatch):
    """Makes XLA:CPU act as CUDA."""
    monkeypatch.setattr(call, "_HOST_PLATFORMS", frozenset())


def on_device(fn, **more):
    return callout.options(fn, memory="device", **more)


class Interface:
    """An array of a library that supports only the CUDA array interface."""

    def __init__(self, of, **changes):
        self.kept = of
        self.__cuda_array_interface__ = {**of.__cuda_array_interface__, **changes}


class Tensor:
    """An array of a library that supports only DLPack."""

    def __init__(self, of, device=None):
        self.of, self.device = of, device

    def __dlpack_device__(self):
        return self.device or self.of.__dlpack_device__()

    def __dlpack__(self, *, stream):
        return self.of.__dlpack__(stream=stream)


def identity(x):
    return x


@pytest.mark.cpu_only(platforms.COUNTED)
@pytest.mark.parametrize("made", [identity, Tensor, Interface], ids=["Buffer", "DLPack", "CUDA array interface"])
def test_arrays_on_the_device_are_copied_on_the_device(made):
    names = ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync", "cuStreamSynchronize")
    program = jax.jit(lambda x: callout.pure_callback(on_device(lambda v: made(v)), F3, x) + 1)
    before = [calls(name) for name in names]
    assert program(X).tolist() == [1, 2, 3]
    # The double itself waits after each handler.
    assert [calls(name) - was for name, was in zip(names, before, strict=True)] == [0, 0, 1, 2]


def test_callback_gets_buffers_in_the_structure_of_its_arguments(received):
    def note(pair, *, scale):
        received.append((repr(pair[0]), pair[1]["a"].__dlpack_device__(), scale.shape))
        return {"first": pair[0], "second": np.float32(7)}

    outs = {"second": jax.ShapeDtypeStruct((), jnp.float32), "first": F3}
    run = jax.jit(lambda x: callout.pure_callback(on_device(note), outs, (x, {"a": x}), scale=2.0))
    out = run(X)
    assert out["first"].tolist() == [0, 1, 2]
    assert float(out["second"]) == 7
    assert received == [("<callout Buffer f32[3] on CUDA device 0, read-only>", (2, 0), ())]


def test_array_likes_are_copied_to_the_device():
    before = calls("cuMemcpyHtoDAsync")
    shapes = (F3, jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((0,), jnp.float32))
    run = jax.jit(lambda: callout.pure_callback(on_device(lambda: ([1.0, 2, 3], 5, np.zeros(0, np.float32))), shapes))
    values, number, nothing = run()
    assert (values.tolist(), int(number), nothing.shape) == ([1, 2, 3], 5, (0,))
    assert calls("cuMemcpyHtoDAsync") - before == 2


def test_loops_eager_calls_and_io(received):
    run = jax.jit(lambda x: lax.fori_loop(0, 5, lambda _, c: callout.pure_callback(on_device(identity), F3, c) + 1, x))
    assert run(X).tolist() == [5, 6, 7]
    assert callout.pure_callback(on_device(identity), F3, X).tolist() == [0, 1, 2]

    def note(x):
        received.append(seen(x).tolist())

    jax.jit(lambda x: callout.io_callback(on_device(note), None, x))(X)
    callout.io_callback(on_device(note), None, X + 1)
    callout.barrier_wait()
    jax.effects_barrier()
    assert received == [[0, 1, 2], [1, 2, 3]]


def test_an_array_interface_may_have_numpy_numbers():
    class Managed(Interface):
        def __dlpack_device__(self):
            return (13, 0)

    run = jax.jit(lambda x: callout.pure_callback(on_device(lambda v: Managed(v, shape=[np.int64(3)])), F3, x))
    assert run(X).tolist() == [0, 1, 2]


def test_vmap_calls_with_the_batch():
    run = jax.vmap(lambda x: callout.pure_callback(on_device(identity), F3, x, vmap_method="broadcast_all"))
    # The declared shape is that of one lane; the results have the batch axis in front.
    assert jax.jit(run)(jnp.ones((2, 3))).tolist() == [[1, 1, 1]] * 2


def waits(function):
    """Wraps `function` so that `counts()` gives the number of events and stream waits while the results were stored."""
    names = ("cuEventRecord", "cuStreamWaitEvent")

    def run(x):
        result = function(x)
        run.before = [calls(name) for name in names]
        return result

    run.counts = lambda: [calls(name) - was for name, was in zip(names, run.before, strict=True)]
    return run


@pytest.mark.cpu_only(platforms.COUNTED)
@pytest.mark.parametrize("results", [None, F3], ids=["no results", "results of the host"])
def test_work_queued_by_a_consumer_is_awaited(results):
    stream = ctypes.c_void_p()

    def consumes(x):
        driver("cuStreamCreate", ctypes.byref(stream), 1)
        for consumer in (stream.value, None, -1):
            x.__dlpack__(stream=consumer)
        return None if results is None else np.ones(3, np.float32)

    run = waits(consumes)
    jax.block_until_ready(jax.jit(lambda x: callout.io_callback(on_device(run), results, x))(X))
    jax.effects_barrier()
    assert run.counts() == [2, 2]  # the stream, and the legacy default stream


@pytest.mark.cpu_only(platforms.COUNTED)
def test_arrays_without_a_stream_wait_for_the_legacy_stream():
    run = waits(lambda x: Interface(x, stream=None))
    assert jax.jit(lambda x: callout.pure_callback(on_device(run), F3, x))(X).tolist() == [0, 1, 2]
    assert run.counts() == [1, 1]


def test_results_of_debug_callbacks_are_ignored(received):
    def note(x):
        received.append(type(x).__name__)
        return x

    def program(x):
        callout.debug_callback(on_device(note), x)

    jax.jit(program)(X)
    program(X)
    callout.barrier_wait()
    jax.effects_barrier()
    assert received == ["Buffer", "Buffer"]


@pytest.mark.cpu_only(platforms.COUNTED)
def test_work_on_other_streams_is_awaited():
    stream = ctypes.c_void_p()

    def elsewhere(x):
        driver("cuStreamCreate", ctypes.byref(stream), 1)
        names = ("cuEventRecord", "cuStreamWaitEvent")
        before = [calls(name) for name in names]
        made = Interface(x, stream=stream.value)
        elsewhere.counts = lambda: [calls(name) - was for name, was in zip(names, before, strict=True)]
        return made

    assert jax.jit(lambda x: callout.pure_callback(on_device(elsewhere), F3, x))(X).tolist() == [0, 1, 2]
    assert elsewhere.counts() == [1, 1]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: Tensor(x), r"result 0: expected f32\[4\], got \(3\) of DLPack's type 2 of 32 bits"),
        (lambda x: Tensor(x, (2, 5)), "result 0: expected an array on CUDA device 0, got one on device 5"),
        (lambda x: Interface(x), r"result 0: expected \(4,\) of '<f4', got \(3,\) of '<f4'"),
        (lambda x: Interface(x, shape=(4,), typestr="<i4"), r"expected \(4,\) of '<f4', got \(4,\) of '<i4'"),
        (lambda x: Interface(x, shape=(4,), strides=(8,)), "expected an array that is row-major and dense"),
        (lambda x: Interface(x, shape=(4,), data=None), "a __cuda_array_interface__ without data"),
        (lambda x: Interface(x, shape=None), "without shape or typestr"),
        (lambda x: Interface(x, shape=(4,), mask=x), "expected an array without a mask"),
        (lambda x: np.zeros(3, np.float32), r"result 0: expected f32\[4\], got f32\[3\]"),
        (lambda x: None, r"result 0: expected f32\[4\], got None"),
        (lambda x: ((1.0, 2.0), (3.0, 4.0)), r"result 0: expected f32\[4\], got f64\[2,2\]"),
    ],
)
def test_results_that_do_not_fit(result, message):
    run = jax.jit(lambda x: callout.pure_callback(on_device(result), jax.ShapeDtypeStruct((4,), jnp.float32), x))
    with pytest.raises(callout.ResultError, match=message), callout.reraise():
        run(X).block_until_ready()


def test_several_results_are_named_by_number():
    run = jax.jit(
        lambda x: callout.pure_callback(on_device(lambda v: (v, v)), (F3, jax.ShapeDtypeStruct((2,), "f4")), x)
    )
    with pytest.raises(callout.ResultError, match=r"result 1: expected f32\[2\]"), callout.reraise():
        run(X)[0].block_until_ready()


def test_exceptions_and_kept_arrays_fail_the_program():
    kept = []
    with pytest.raises(ZeroDivisionError), callout.reraise():
        jax.jit(lambda x: callout.pure_callback(on_device(lambda v: 1 / 0), F3, x))(X).block_until_ready()

    def keeps(x):
        kept.append(x.__dlpack__(stream=-1))
        return x

    with pytest.raises(callout.CallbackError, match="of argument 0 beyond its call"), callout.reraise():
        jax.jit(lambda x: callout.pure_callback(on_device(keeps), F3, x))(X).block_until_ready()
    kept.clear()


@pytest.mark.parametrize("function", ["cuMemcpyDtoDAsync", "cuStreamSynchronize"])
def test_errors_of_the_driver_are_the_programs(function):
    def fails(x):
        fail(function, 1, 1)
        return x

    broken = jax.jit(lambda x: callout.pure_callback(on_device(fails), F3, x))
    with pytest.raises(FAILURES, match=rf"(?s){function}.*CUDA_ERROR_INVALID_VALUE"):
        broken(X).block_until_ready()
    fine = jax.jit(lambda x: callout.pure_callback(on_device(identity), F3, x))
    assert fine(X).tolist() == [0, 1, 2]


def test_unsupported_uses_are_rejected():
    with pytest.raises(NotImplementedError, match="which ordered calls honour on cpu only"):
        jax.jit(lambda x: callout.io_callback(on_device(identity), F3, x, ordered=True))(X)
    with pytest.raises(NotImplementedError, match=r"callout\.threaded honours on cpu only"):
        jax.jit(callout.threaded(lambda x: callout.io_callback(on_device(identity), F3, x)))(X)
    with pytest.raises(NotImplementedError, match=r"for cpu only\. .*jax\.dlpack\.from_dlpack"):
        jax.jit(lambda x: callout.pure_callback(on_device(identity, args="jax"), F3, x))(X)


def test_a_result_in_own_memory_may_still_have_queued_work():
    own = ctypes.c_uint64()

    def fill(x):
        driver("cuMemAlloc", ctypes.byref(own), x.nbytes)
        driver("cuMemsetD8Async", own, 1, x.nbytes, None)
        return Interface(x, data=(own.value, False), stream=1)  # the legacy default stream

    filled = jax.jit(lambda x: callout.pure_callback(on_device(fill), F3, x))(X)
    np.testing.assert_array_equal(np.asarray(filled).view(np.uint8), np.ones(12))
    callout.io_callback(on_device(lambda: driver("cuMemFree", own)), None)
