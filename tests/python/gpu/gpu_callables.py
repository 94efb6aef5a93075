# SPDX-License-Identifier: Apache-2.0
"""Tests callout.numba_cuda.numba_cuda_callable in programs. test_gpu_buffers.py runs this file on the driver's double.

The functions queue Numba's copies and fills, because the double does not run kernels of compiled Python.
"""

import ctypes
import gc
import importlib
import os
import threading
import warnings

import callout
import gpu_double
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._native.gpu.callable import CallableTarget
from callout.numba_cuda import numba_cuda_callable
from double_memory import driver
from gpu_double import calls, fail
from jax import lax
from platforms import ON_CUDA

gpu_double.control()  # loads the double, so that Numba finds it
with warnings.catch_warnings(action="ignore"):
    cuda = importlib.import_module(os.environ.get("CALLOUT_TEST_NUMBA", "numba.cuda"))

# On JAX's fast path, from the second call on, an error is a ValueError.
FAILURES = (jax.errors.JaxRuntimeError, ValueError)
F3 = jax.ShapeDtypeStruct((3,), jnp.float32)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    if not ON_CUDA:
        monkeypatch.setattr(CallableTarget, "platforms", ("cpu",))


def copy(x, out, stream):
    out.copy_to_device(x, stream=stream)


def address(array):
    return int(array.__cuda_array_interface__["data"][0])


def fill(array, value, stream):
    """Queues a fill with bytes, as a kernel launch would be queued."""
    driver("cuMemsetD8Async", address(array), value, array.nbytes, int(stream.handle))


def test_eager_jit_and_loops():
    x = jnp.arange(3.0)
    call = numba_cuda_callable(copy, F3)
    for out in (call(x), jax.jit(call)(x), jax.jit(call).lower(x).compile()(x)):
        assert out.tolist() == [0, 1, 2]
    assert jax.jit(lambda v: lax.fori_loop(0, 5, lambda _, c: call(c) + 1, v))(x).tolist() == [5, 6, 7]
    assert call.__name__ == "copy"


def test_function_gets_arrays_of_numba_and_xlas_stream(received):
    def note(x, n, out, stream):
        received.append([(type(a).__name__, a.shape, a.dtype, a.is_c_contiguous()) for a in (x, n, out)])
        received.append((int(stream.handle), int(x.stream.handle)))
        received.append(type(x).__module__.split(".")[0] == cuda.__name__.split(".")[0])
        copy(x, out, stream)

    shape = jax.ShapeDtypeStruct((2, 3), jnp.int16)
    out = jax.jit(numba_cuda_callable(note, shape))(jnp.ones((2, 3), jnp.int16), jnp.float32(1))
    assert out.tolist() == [[1, 1, 1]] * 2
    kind = "DeviceNDArray"
    assert received[0] == [(kind, (2, 3), np.int16, True), (kind, (), np.float32, True), (kind, (2, 3), np.int16, True)]
    assert received[1][0] == received[1][1] > 2
    assert received[2]


def test_scalars_pytrees_and_results_by_function():
    def parts(a, b, c, first, second, stream):
        first.copy_to_device(b, stream=stream)
        second.copy_to_device(c, stream=stream)

    def outs(pair, c):
        return {"second": c, "first": pair[1]}

    x = (jnp.ones(2), jnp.arange(3.0)), jnp.float32(7)
    result = jax.jit(numba_cuda_callable(parts, outs))(*x)
    assert result["first"].tolist() == [0, 1, 2]
    assert float(result["second"]) == 7


def test_scratch_is_memory_and_no_result():
    seen = []

    def through(x, out, scratch, more, stream):
        seen.append((scratch.shape, more.dtype))
        scratch.copy_to_device(x, stream=stream)
        out.copy_to_device(scratch, stream=stream)

    scratch = (F3, jax.ShapeDtypeStruct((5,), jnp.int32))
    call = numba_cuda_callable(through, F3, scratch=scratch, vmap_method="broadcast_all")
    assert jax.jit(call)(jnp.arange(3.0)).tolist() == [0, 1, 2]
    by_function = numba_cuda_callable(through, lambda x: x, scratch=lambda x: (x, scratch[1]))
    assert by_function(jnp.arange(3.0)).tolist() == [0, 1, 2]
    assert jax.jit(jax.vmap(call))(jnp.ones((2, 3))).tolist() == [[1, 1, 1]] * 2
    assert seen == [((3,), np.int32)] * 2 + [((2, 3), np.int32)]


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap(method):
    def first(x, y, out, stream):
        copy(x, out, stream)

    call = numba_cuda_callable(first, lambda x, y: x, vmap_method=method)
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
    np.testing.assert_array_equal(jax.vmap(call, in_axes=(0, None))(x, y), x)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(call)))(x, x), x)


def test_results_in_the_place_of_arguments():
    def half(x, out, stream):
        fill(out[:1], 0, stream)

    call = numba_cuda_callable(half, F3, input_output_aliases={0: 0})
    assert jax.jit(lambda v: call(v) + v)(jnp.arange(1.0, 4.0)).tolist() == [1, 4, 6]


@pytest.mark.devices(4)
def test_each_device_calls_in_its_context(received):
    def note(x, out, stream):
        received.append(cuda.current_context().device.id)
        copy(x, out, stream)

    call = jax.jit(numba_cuda_callable(note, F3))
    for device in jax.devices()[:3]:
        assert call(jax.device_put(jnp.ones(3), device)).tolist() == [1, 1, 1]
    assert received == [0, 1, 2]
    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[:4])
    x = jax.device_put(jnp.arange(12.0), jax.NamedSharding(mesh, jax.P("i")))
    received.clear()
    assert jax.jit(jax.shard_map(call, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i")))(x).tolist() == x.tolist()
    assert sorted(received) == [0, 1, 2, 3]


def test_exceptions_fail_the_computation_and_the_next_run_works():
    broken = [True]

    def fails(x, out, stream):
        if broken[0]:
            raise KeyError("boom", x.shape)
        copy(x, out, stream)

    call = jax.jit(numba_cuda_callable(fails, F3))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"callback '.*fails' failed on device 0: KeyError: \('boom'"):
        call(jnp.ones(3)).block_until_ready()
    with pytest.raises(KeyError, match="boom"), callout.reraise():
        call(jnp.ones(3)).block_until_ready()
    broken[0] = False
    assert call(jnp.ones(3)).tolist() == [1, 1, 1]


def test_kept_and_returned_arrays_fail():
    kept = []

    def keeps(x, out, stream):
        kept.append(x)

    with pytest.raises(callout.CallbackError, match="of argument 0 beyond its call"), callout.reraise():
        jax.jit(numba_cuda_callable(keeps, F3))(jnp.ones(3)).block_until_ready()
    kept.clear()
    with pytest.raises(callout.CallbackError, match="must return None"), callout.reraise():
        jax.jit(numba_cuda_callable(lambda x, out, stream: out, F3))(jnp.ones(3)).block_until_ready()


def test_unsupported_uses_are_rejected(monkeypatch):
    with pytest.raises(TypeError, match="expected a function, got 3"):
        numba_cuda_callable(3, F3)
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        numba_cuda_callable(copy, F3, vmap_method="all")
    with pytest.raises(TypeError, match="'copy': argument 0 is bfloat16, which device arrays do not have"):
        numba_cuda_callable(copy, F3)(jnp.ones(3, jnp.bfloat16))
    with pytest.raises(TypeError, match="'copy': scratch 0 is float8_e5m2"):
        numba_cuda_callable(copy, F3, scratch=jax.ShapeDtypeStruct((1,), jnp.float8_e5m2))(jnp.ones(3))
    with pytest.raises(ValueError, match=r"\{0: 1\}: there is no result 1; the call has 1"):
        numba_cuda_callable(copy, F3, input_output_aliases={0: 1}, scratch=F3)(jnp.ones(3))
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.jvp(numba_cuda_callable(copy, F3), (jnp.ones(3),), (jnp.ones(3),))
    with pytest.raises(NotImplementedError, match="vmap"):
        jax.vmap(numba_cuda_callable(copy, F3))(jnp.ones((2, 3)))
    monkeypatch.setattr(CallableTarget, "platforms", ("cuda",))
    with pytest.raises(NotImplementedError, match="not supported on platform cpu; supported: cuda"):
        jax.jit(numba_cuda_callable(copy, F3)).trace(jnp.ones(3)).lower(lowering_platforms=("cpu",))


def test_a_function_is_one_target_however_often_it_is_wrapped():
    jax.clear_caches()
    before = callout.stats()["live"]["callbacks"]
    run = Counted()
    calls = [numba_cuda_callable(run, F3) for _ in range(5)]
    x = jnp.ones(3)
    for call in calls:
        call(x)
    assert run.runs == 5
    assert callout.stats()["live"]["callbacks"] - before == 1
    del calls, call, run
    jax.clear_caches()
    gc.collect()
    assert callout.stats()["live"]["callbacks"] == before


class Counted:
    """A function of device arrays that counts its runs."""

    def __init__(self, run=copy):
        self.runs, self.run = 0, run
        self.__name__ = "counted"

    def __call__(self, *arguments):
        self.runs += 1
        self.run(*arguments)


def test_graph_replays_without_python():
    counted = Counted()
    call = numba_cuda_callable(counted, F3, graph=True)
    program = jax.jit(lambda x: lax.fori_loop(0, 200, lambda _, c: call(c) + 1, x)).lower(jnp.ones(3)).compile()
    before = callout.stats()["kernels"]
    for i in range(3):
        assert program(jnp.full(3, i, jnp.float32)).tolist() == [200 + i] * 3
    after = callout.stats()["kernels"]
    recorded, replayed = (after[key] - before[key] for key in ("recorded", "replayed"))
    # The first call runs; then each set of buffers is recorded once.
    assert (replayed, counted.runs) == (599, 1 + recorded)
    assert 0 < recorded < 20


def test_graph_with_scratch():
    def run(x, out, scratch, stream):
        scratch.copy_to_device(x, stream=stream)
        out.copy_to_device(scratch, stream=stream)

    call = numba_cuda_callable(run, F3, graph=True, scratch=F3)
    program = jax.jit(lambda x: lax.fori_loop(0, 20, lambda _, c: call(c) + 1, x))
    assert program(jnp.zeros(3)).tolist() == [20] * 3


def test_graph_on_several_devices():
    counted = Counted()
    program = jax.jit(numba_cuda_callable(counted, F3, graph=True))
    for i in range(4):
        for device in jax.devices()[:2]:
            assert program(jax.device_put(jnp.full(3, i, jnp.float32), device)).tolist() == [i] * 3


def test_arrays_know_the_recording_stream(received):
    def note(x, out, stream):
        received.append((int(stream.handle), int(x.stream.handle), int(out.stream.handle)))
        out.copy_to_device(x)  # on the array's own stream

    call = numba_cuda_callable(note, F3, graph=True)
    program = jax.jit(lambda x: lax.fori_loop(0, 3, lambda _, c: call(c) + 1, x))
    assert program(jnp.zeros(3)).tolist() == [3, 3, 3]
    assert [len(set(streams)) for streams in received] == [1] * len(received)
    assert len(set(received)) == len(received) > 1


def test_allocation_while_recording_is_reported():
    allocates = [False]

    def run(x, out, stream):
        if allocates[0]:
            driver("cuMemAlloc", ctypes.byref(ctypes.c_uint64()), 64)
        copy(x, out, stream)

    program = jax.jit(numba_cuda_callable(run, F3, graph=True))
    x = jnp.ones(3)
    program(x).block_until_ready()
    allocates[0] = True
    with pytest.raises(FAILURES, match=r"(?s)cuMemAlloc returned 900.*give it memory by `scratch`"):
        program(x + 1).block_until_ready()
    allocates[0] = False
    assert program(x + 2).tolist() == [3, 3, 3]


class Foreign:
    """Device memory of another library, in a reference cycle: the garbage collector frees the memory."""

    freed = 0

    def __init__(self):
        self.myself, self.memory, self.context = self, ctypes.c_uint64(), ctypes.c_void_p()
        driver("cuCtxGetCurrent", ctypes.byref(self.context))
        driver("cuMemAlloc", ctypes.byref(self.memory), 64)

    def __del__(self):
        driver("cuCtxPushCurrent", self.context)
        driver("cuMemFree", self.memory)
        driver("cuCtxPopCurrent", ctypes.byref(self.context))
        Foreign.freed += 1


@pytest.mark.parametrize("keeps", [False, True])
def test_garbage_of_others_is_not_freed_while_it_is_recorded(keeps):
    freed_by_then = []

    def run(x, out, stream):
        copy(x, out, stream)
        if not freed_by_then:
            Foreign()
        else:
            cycle = [x] if keeps else []  # keeps an array, so that the end of the call runs the collector
            cycle.append(cycle)
            gc.set_threshold(1, 1, 1)
        for _ in range(1000):
            [[]].append([])
        freed_by_then.append(Foreign.freed)

    program = jax.jit(numba_cuda_callable(run, F3, graph=True))
    Foreign.freed = 0
    threshold = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        for i in range(2):
            assert program(jnp.full(3, i, jnp.float32)).tolist() == [i] * 3
    finally:
        gc.set_threshold(*threshold)
    assert gc.isenabled()
    assert freed_by_then == [0, 0]
    gc.collect()
    assert Foreign.freed == 1


def test_driver_that_fails_in_a_recording_is_the_error():
    program = jax.jit(numba_cuda_callable(Counted(), F3, graph=True))
    x = jnp.ones(3)
    program(x).block_until_ready()
    fail("cuGraphInstantiateWithFlags", 1, 2)
    with pytest.raises(FAILURES, match=r"cuGraphInstantiateWithFlags.*CUDA_ERROR_OUT_OF_MEMORY"):
        program(x + 1).block_until_ready()
    assert program(x + 2).tolist() == [3, 3, 3]


def test_threads_run_one_program_at_once():
    program = jax.jit(numba_cuda_callable(copy, F3, graph=True)).lower(jnp.ones(3)).compile()
    results = [None] * 6

    def run(i):
        results[i] = [np.asarray(program(jnp.full(3, i, jnp.float32))) for _ in range(20)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, outs in enumerate(results):
        np.testing.assert_array_equal(outs, np.full((20, 3), i))


def test_nothing_waits(received):
    def note(x, out, stream):
        received.append(calls("cuStreamSynchronize"))
        copy(x, out, stream)
        received.append(calls("cuStreamSynchronize"))

    numba_cuda_callable(note, F3)(jnp.ones(3)).block_until_ready()
    assert received[0] == received[1]
