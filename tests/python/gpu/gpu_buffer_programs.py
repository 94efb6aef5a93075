# SPDX-License-Identifier: Apache-2.0
"""Tests callout.buffer_callback on CUDA in programs. test_gpu_buffers.py runs this file on the double of the driver."""

import ctypes
import gc

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import ExecutionStage, buffer_callback
from double_memory import DriverError, address, copy, driver, filling, seen
from gpu_double import calls, fail
from jax import lax
from platforms import ON_CUDA

F3 = jax.ShapeDtypeStruct((3,), jnp.float32)


def like(fn, **settings):
    """Makes a buffer_callback whose results are like its first argument."""

    def call(x, *args):
        return buffer_callback(fn, jax.ShapeDtypeStruct(x.shape, x.dtype), **settings)(x, *args)

    return call


def test_eager_jit_and_loops():
    x = jnp.arange(3.0)
    call = buffer_callback(copy, F3)
    for out in (call(x), jax.jit(call)(x), jax.jit(call).lower(x).compile()(x)):
        assert out.tolist() == [0, 1, 2]
    assert jax.jit(lambda v: lax.fori_loop(0, 5, lambda _, c: call(c) + 1, v))(x).tolist() == [5, 6, 7]
    assert lax.scan(lambda c, v: (call(c) + v, c), x, jnp.ones(4))[0].tolist() == [4, 5, 6]
    assert lax.cond(True, call, lambda v: v + 1, x).tolist() == [0, 1, 2]


def test_pytrees_and_keywords_on_both_sides():
    def split(ctx, out, pair, *, fill):
        copy(ctx, out["first"], pair[0])
        copy(ctx, out["rest"][0], pair[1])
        copy(ctx, out["rest"][1], fill)

    outs = {"first": jax.ShapeDtypeStruct((4,), jnp.float32), "rest": (F3, jax.ShapeDtypeStruct((), jnp.int32))}
    result = jax.jit(buffer_callback(split, outs))((jnp.ones(4), jnp.arange(3.0)), fill=jnp.int32(5))
    assert jax.tree.map(np.ndarray.tolist, jax.tree.map(np.asarray, result)) == {
        "first": [1, 1, 1, 1],
        "rest": ([0, 1, 2], 5),
    }


@pytest.mark.devices(2)
def test_the_context_has_device_and_run(received):
    def note(ctx, out, x):
        current, primary = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuCtxGetCurrent", ctypes.byref(current))
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(primary), ctx.device_ordinal)
        driver("cuDevicePrimaryCtxRelease", ctx.device_ordinal)
        received.append((ctx.stage, ctx.device_ordinal, type(ctx.stream), current.value == primary.value))
        received.append(x.__dlpack_device__())
        copy(ctx, out, x)

    call = jax.jit(buffer_callback(note, F3))
    for device in jax.devices()[:2]:
        call(jax.device_put(jnp.zeros(3), device)).block_until_ready()
    assert received == [(ExecutionStage.EXECUTE, 0, int, True), (2, 0), (ExecutionStage.EXECUTE, 1, int, True), (2, 1)]


def test_nothing_is_copied_and_nothing_is_waited_for(received):
    def note(ctx, out, x):
        received.append([calls(name) for name in ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamSynchronize")])
        copy(ctx, out, x)

    call = jax.jit(lambda x: buffer_callback(note, F3)(buffer_callback(note, F3)(x)))
    call(jnp.zeros(3)).block_until_ready()
    before, after = received
    # On a CPU the double itself waits after each handler, because XLA:CPU does not wait for streams.
    assert [b - a for a, b in zip(before, after, strict=True)] == [0, 0, 0 if ON_CUDA else 1]


def test_operands_are_there_and_in_their_place(received):
    def look(ctx, out, x):
        received.append((seen(x).tolist(), out.__cuda_array_interface__["data"], x.__cuda_array_interface__["data"]))
        copy(ctx, out, x)

    assert jax.jit(like(look))(jnp.arange(3.0)).tolist() == [0, 1, 2]
    values, (_, out_read_only), (_, argument_read_only) = received[0]
    assert (values, out_read_only, argument_read_only) == ([0, 1, 2], False, True)


def test_results_in_the_place_of_arguments(received):
    def grow(ctx, out, x):
        received.append(address(out) == address(x))
        driver("cuMemsetD8Async", address(out), 0, 4, ctx.stream)

    call = like(grow, input_output_aliases={0: 0}, vmap_method="sequential")
    assert jax.jit(call, donate_argnums=0)(jnp.arange(1.0, 4.0)).tolist() == [0, 2, 3]
    x = jnp.arange(1.0, 4.0)
    assert jax.jit(lambda v: call(v) + v)(x).tolist() == [1, 4, 6]
    assert jax.vmap(call)(jnp.ones((2, 3))).tolist() == [[0, 1, 1]] * 2
    assert x.tolist() == [1, 2, 3]
    assert received[0] is True


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap(method):
    call = like(lambda ctx, out, x, y: copy(ctx, out, x), vmap_method=method)
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
    np.testing.assert_array_equal(jax.vmap(call, in_axes=(0, None))(x, y), x)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(call)))(x, x), x)


@pytest.fixture
def spread():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("d",))
    return mesh, jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("d")))


def noting(received):
    """Makes a callback that copies, and records its device and arguments."""

    def note(ctx, out, v):
        received.append((ctx.device_ordinal, v.shape))
        copy(ctx, out, v)

    return note


@pytest.mark.devices(4)
def test_several_devices(spread, received):
    mesh, x = spread
    note = noting(received)
    by_shard = jax.shard_map(like(note), mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    for call in (like(note, sharding="local"), by_shard):
        received.clear()
        assert jax.jit(call)(x).tolist() == list(range(8))
        assert sorted(received) == [(device, (2,)) for device in range(4)]


@pytest.mark.collectives
@pytest.mark.devices(4)
def test_a_sharded_argument_is_gathered(spread, received):
    _, x = spread
    note = noting(received)
    assert jax.jit(like(note, sharding="gather"))(x).tolist() == list(range(8))
    assert received == [(0, (8,))]


@pytest.mark.collectives
@pytest.mark.devices(4)
def test_a_failure_on_one_device_fails_the_program(spread):
    _, x = spread

    def fails(ctx, out, v):
        raise KeyError("boom")

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)'.*fails' failed on device 0: KeyError: 'boom'"):
        jax.jit(like(fails))(x).block_until_ready()
    assert jax.jit(like(copy))(x).tolist() == list(range(8))


def test_exceptions_arrive_as_themselves_and_the_next_run_works():
    broken = [True]

    def fails(ctx, out, x):
        arrays = [x.__cuda_array_interface__, x]
        if broken[0]:
            raise KeyError("boom", len(arrays))
        copy(ctx, out, x)

    call = jax.jit(buffer_callback(fails, F3))
    with pytest.raises(KeyError, match="boom"), callout.reraise():
        call(jnp.ones(3)).block_until_ready()
    broken[0] = False
    assert call(jnp.ones(3)).tolist() == [1, 1, 1]


def test_a_result_must_be_none():
    with pytest.raises(callout.CallbackError, match="must return None"), callout.reraise():
        jax.jit(buffer_callback(lambda ctx, out, x: 3, F3))(jnp.zeros(3)).block_until_ready()


def test_a_failing_driver_is_the_error_of_the_program():
    call = jax.jit(buffer_callback(copy, F3))
    x = jnp.ones(3).block_until_ready()  # XLA may copy when it makes the array
    compiled = call.lower(x).compile()
    fail("cuMemcpyDtoDAsync", 1, 2)
    with pytest.raises(DriverError, match="cuMemcpyDtoDAsync returned 2"), callout.reraise():
        compiled(x).block_until_ready()
    assert compiled(jnp.ones(3)).tolist() == [1, 1, 1]


@pytest.mark.cpu_only("XLA on a GPU asks its streams the same, and the driver would fail XLA's call")
def test_a_stream_query_error_fails_the_program():
    compiled = jax.jit(buffer_callback(copy, F3)).lower(jnp.ones(3)).compile()
    fail("cuStreamGetCaptureInfo", 1, 2)  # fails before the function runs
    with pytest.raises(MemoryError, match=r"0: cuStreamGetCaptureInfo on device 0 failed"), callout.reraise():
        compiled(jnp.ones(3)).block_until_ready()
    fail("cuStreamGetCaptureInfo", 2, 2)  # fails in an array interface
    with (
        pytest.raises(RuntimeError, match=r"cuStreamGetCaptureInfo.*CUDA_ERROR_OUT_OF_MEMORY \(2\)"),
        callout.reraise(),
    ):
        compiled(jnp.ones(3)).block_until_ready()


def test_capturable_one_runs_too():
    call = jax.jit(buffer_callback(filling(0), F3, command_buffer_compatible=True))
    assert "callout.v1.buffer_capturable" in call.trace().lower(lowering_platforms=("cuda",)).as_text()
    assert "callout.v1.buffer(" in call.trace().lower(lowering_platforms=("cpu",)).as_text()
    assert call().tolist() == [0, 0, 0]


def test_no_stream_is_named_while_it_is_captured(received):
    def records(ctx, out, x):
        graph = ctypes.c_void_p()
        driver("cuStreamBeginCapture", ctx.stream, 1)
        received.append(x.__cuda_array_interface__["stream"])
        driver("cuStreamEndCapture", ctx.stream, ctypes.byref(graph))
        driver("cuGraphDestroy", graph)
        received.append(x.__cuda_array_interface__["stream"] == ctx.stream)
        copy(ctx, out, x)

    assert jax.jit(buffer_callback(records, F3))(jnp.ones(3)).tolist() == [1, 1, 1]
    assert received == [None, True]


@pytest.mark.cpu_only("the function writes what is a GPU's memory on the plugin")
def test_a_native_function_gets_the_stream():
    source = """
extern "C" __attribute__((visibility("default"))) int f(void** ptrs, const long* dims, void* stream) {
  static_cast<float*>(ptrs[1])[0] = dims[0] + (stream != nullptr ? 1 : 0);  // the double's memory is the host's
  return 0;
}
"""
    module = callout.cpp.load_inline(source, functions=["f"])
    callout.register("buffer.native", f"{module.path}:f")
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    assert float(jax.jit(buffer_callback("buffer.native", scalar))(jnp.zeros(5))) == 6
    callout.unregister("buffer.native")


def test_a_callback_dies_with_its_program():
    before = callout.stats()["live"]["callbacks"]
    jax.jit(buffer_callback(lambda ctx, out, x: copy(ctx, out, x), F3))(jnp.zeros(3)).block_until_ready()
    jax.clear_caches()
    gc.collect()
    assert callout.stats()["live"]["callbacks"] == before
