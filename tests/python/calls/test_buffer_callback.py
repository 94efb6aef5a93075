# SPDX-License-Identifier: Apache-2.0
"""callout.buffer_callback in programs: transformations, devices, places of results, errors, lifetime."""

import ctypes
import functools
import gc

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import Buffer, ExecutionContext, ExecutionStage, buffer_callback
from jax import lax

pytestmark = pytest.mark.cpu_only("NumPy does not read memory of a device; test_gpu_buffers.py does")

F3 = jax.ShapeDtypeStruct((3,), jnp.float32)


def add_one(ctx, out, x):
    np.asarray(out)[...] = np.asarray(x) + 1


def like(fn, **settings):
    """Makes a buffer_callback whose results are like its first argument."""

    def call(x, *args):
        return buffer_callback(fn, jax.ShapeDtypeStruct(x.shape, x.dtype), **settings)(x, *args)

    return call


def test_eager_jit_and_loops():
    x = jnp.arange(3.0)
    call = buffer_callback(add_one, F3)
    for out in (call(x), jax.jit(call)(x), jax.jit(call).lower(x).compile()(x)):
        assert out.tolist() == [1, 2, 3]
    assert jax.jit(lambda v: lax.fori_loop(0, 5, lambda _, c: call(c), v))(x).tolist() == [5, 6, 7]
    assert lax.scan(lambda c, v: (call(c), v), x, jnp.zeros(4))[0].tolist() == [4, 5, 6]
    assert lax.cond(True, call, lambda v: v, x).tolist() == [1, 2, 3]
    assert jax.jit(jax.checkpoint(call))(x).tolist() == [1, 2, 3]
    assert x.tolist() == [0, 1, 2]


def test_pytrees_and_keywords_on_both_sides():
    def split(ctx, out, pair, *, scale):
        assert isinstance(ctx, ExecutionContext)
        assert [type(leaf) for leaf in jax.tree.leaves((out, pair, scale))] == [Buffer] * 5
        np.asarray(out["sum"])[()] = np.asarray(pair[0]).sum()
        np.asarray(out["rest"][0])[...] = np.asarray(pair[1]) * np.asarray(scale)

    outs = {"sum": jax.ShapeDtypeStruct((), jnp.float32), "rest": (F3,)}
    result = jax.jit(buffer_callback(split, outs))((jnp.ones(4), jnp.arange(3.0)), scale=2.0)
    assert float(result["sum"]) == 4
    assert result["rest"][0].tolist() == [0, 2, 4]


def test_no_arguments_and_no_results():
    seen = []

    def fill(ctx, out):
        np.asarray(out)[...] = 7

    def note(ctx, out, x):
        assert out == ()
        seen.append(float(np.asarray(x)))

    assert jax.jit(buffer_callback(fill, F3))().tolist() == [7, 7, 7]
    jax.jit(lambda x: buffer_callback(note, (), has_side_effect=True)(x))(2.0)
    jax.effects_barrier()
    assert seen == [2]


def test_the_context_has_device_and_run(received):
    def note(ctx, out, x):
        received.append((ctx.stage, ctx.device_ordinal, ctx.run_id))
        with pytest.raises(jax.errors.JaxRuntimeError, match="XLA FFI GPU context is not available"):
            ctx.stream  # noqa: B018
        np.asarray(out)[...] = np.asarray(x)

    call = jax.jit(buffer_callback(note, F3))
    for device in jax.devices()[:2]:
        call(jax.device_put(jnp.zeros(3), device)).block_until_ready()
    assert [(stage, ordinal) for stage, ordinal, _ in received] == [(ExecutionStage.EXECUTE, 0), (3, 1)]
    assert received[0][2] != received[1][2]


def test_side_effects_are_kept_and_pure_calls_are_not(received):
    def note(ctx, out, x):
        received.append(0)
        np.asarray(out)[...] = 0

    for has_side_effect, count in ((False, 0), (True, 1)):
        received.clear()
        jax.jit(lambda x, k=has_side_effect: (buffer_callback(note, F3, has_side_effect=k)(x), x)[1])(jnp.zeros(3))
        jax.effects_barrier()
        assert len(received) == count


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap(method):
    def add(ctx, out, x, y):
        np.asarray(out)[...] = np.asarray(x) + np.asarray(y)

    call = like(add, vmap_method=method)
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
    np.testing.assert_array_equal(jax.vmap(call, in_axes=(0, None))(x, y), x + y)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(call)))(x, x), 2 * x)


def test_unsupported_uses_are_rejected():
    call = buffer_callback(add_one, F3)
    with pytest.raises(ValueError, match=r"Buffer callbacks do not support JVP. Please use `jax.custom_jvp`"):
        jax.jvp(call, (jnp.zeros(3),), (jnp.zeros(3),))
    with pytest.raises(NotImplementedError, match="vmap"):
        jax.vmap(call)(jnp.zeros((2, 3)))
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        buffer_callback(add_one, F3, vmap_method="all")
    with pytest.raises(ValueError, match="sharding must be one of"):
        buffer_callback(add_one, F3, sharding="all")
    with pytest.raises(TypeError, match="expected a callable or a registered name, got 3"):
        buffer_callback(3, F3)(jnp.zeros(3))
    with pytest.raises(ValueError, match="cannot specify 64-bit types when `jax_enable_x64` is disabled, got float64"):
        buffer_callback(add_one, jax.ShapeDtypeStruct((3,), "float64"))
    with pytest.raises(TypeError, match="result 0 is int4, which XLA packs"):
        buffer_callback(add_one, jax.ShapeDtypeStruct((3,), jnp.int4))
    with pytest.raises(TypeError, match="argument 0 is uint2, which XLA packs"):
        call(jnp.zeros(3, jnp.uint2))
    with pytest.raises(ValueError, match=r"\{0: 1\}: there is no result 1; the call has 1"):
        buffer_callback(add_one, F3, input_output_aliases={0: 1})(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"argument 0 is float32\[2\], result 0 is float32\[3\]"):
        buffer_callback(add_one, F3, input_output_aliases={0: 0})(jnp.zeros(2))
    with pytest.raises(ValueError, match="exported program carries names"):
        callout.export(jax.jit(call))(jnp.zeros(3))
    with pytest.raises(NotImplementedError, match="not supported on platform rocm"):
        jax.jit(call).trace(jnp.zeros(3)).lower(lowering_platforms=("cpu", "rocm"))


def test_results_in_the_place_of_arguments():
    addresses = []

    def add_to(ctx, out, x):
        addresses.append((np.asarray(out).ctypes.data, np.asarray(x).ctypes.data))
        np.asarray(out)[...] += 1

    call = like(add_to, input_output_aliases={0: 0}, vmap_method="sequential")
    assert jax.jit(call, donate_argnums=0)(jnp.arange(3.0)).tolist() == [1, 2, 3]
    assert addresses[0][0] == addresses[0][1]
    x = jnp.arange(3.0)
    assert jax.jit(lambda v: call(v) + v)(x).tolist() == [1, 3, 5]
    assert jax.vmap(call)(jnp.zeros((2, 3))).tolist() == [[1, 1, 1]] * 2
    assert x.tolist() == [0, 1, 2]


@pytest.fixture
def spread():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("d",))
    return mesh, jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("d")))


@pytest.mark.parametrize(
    ("sharding", "calls"), [("gather", [(0, (8,))]), ("local", [(device, (2,)) for device in range(4)])]
)
def test_several_devices(spread, received, sharding, calls):
    mesh, x = spread

    def note(ctx, out, v):
        received.append((ctx.device_ordinal, v.shape))
        np.asarray(out)[...] = np.asarray(v) + 1

    out = jax.jit(like(note, sharding=sharding))(x).block_until_ready()
    assert out.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(received) == calls
    assert out.sharding.is_equivalent_to(jax.NamedSharding(mesh, jax.P("d" if sharding == "local" else None)), 1)


def test_shards_of_several_arguments(received):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))

    def note(ctx, out, x, y, z):
        received.append((x.shape, y.shape, z.shape, out[0].shape, out[1].shape))
        np.asarray(out[0])[...] = np.asarray(x) * 2
        np.asarray(out[1])[...] = np.asarray(y) * 3

    def put(shape, *axes):
        return jax.device_put(jnp.ones(shape), jax.NamedSharding(mesh, jax.P(*axes)))

    outs = (jax.ShapeDtypeStruct((4, 8), jnp.float32), jax.ShapeDtypeStruct((6,), jnp.float32))
    call = jax.jit(buffer_callback(note, outs, sharding="local"))
    twice, thrice = jax.block_until_ready(call(put((4, 8), "a", "b"), put((6,), "b"), jnp.float32(1)))
    assert received == [((2, 4), (3,), (), (2, 4), (3,))] * 4
    assert (float(twice.sum()), float(thrice.sum())) == (64, 18)
    assert (twice.sharding.spec, thrice.sharding.spec) == (jax.P("a", "b"), jax.P("b"))


def test_shard_map_calls_everywhere(spread, received):
    mesh, x = spread

    def note(ctx, out, v):
        received.append(v.shape)
        np.asarray(out)[...] = np.asarray(v) + 1

    for sharding in ("gather", "error"):
        received.clear()
        call = jax.shard_map(like(note, sharding=sharding), mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
        assert jax.jit(call)(x).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert received == [(2,)] * 4


def test_sharding_can_be_refused(spread):
    _, x = spread
    with pytest.raises(NotImplementedError, match="in a jit over 4 devices, and sharding='error'"):
        jax.jit(like(add_one, sharding="error"))(x)
    assert jax.jit(like(add_one, sharding="error"))(jnp.zeros(2)).tolist() == [1, 1]
    with pytest.raises(Exception, match="result 0 has the shape of no argument, so how it is spread"):
        jax.jit(buffer_callback(add_one, F3, sharding="local"))(x)


def test_exceptions_arrive_as_themselves():
    def fails(ctx, out, x):
        view = np.asarray(x)
        raise KeyError("boom", float(view[0]))

    with pytest.raises(KeyError, match="boom") as caught, callout.reraise():
        jax.jit(buffer_callback(fails, F3))(jnp.ones(3)).block_until_ready()
    frames = []
    traceback = caught.value.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    assert not any("view" in frame.f_locals for frame in frames if frame.f_code.co_name == "fails")


def test_a_result_must_be_none():
    with (
        pytest.raises(
            callout.CallbackError, match=r"must return None and write into its results; it returned .*ndarray"
        ),
        callout.reraise(),
    ):
        jax.jit(buffer_callback(lambda ctx, out, x: np.zeros(3), F3))(jnp.zeros(3)).block_until_ready()


def test_arguments_are_read_only():
    def writes(ctx, out, x):
        np.asarray(x)[0] = 1

    with pytest.raises(ValueError, match="read-only"), callout.reraise():
        jax.jit(buffer_callback(writes, F3))(jnp.zeros(3)).block_until_ready()


def test_a_c_function_fills_the_results():
    libc = ctypes.CDLL(None)
    libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def copy(ctx, out, x):
        libc.memcpy(np.asarray(out).ctypes.data, np.asarray(x).ctypes.data, x.nbytes)

    assert jax.jit(buffer_callback(copy, F3))(jnp.arange(3.0)).tolist() == [0, 1, 2]


def test_a_registered_native_function():
    source = """
#include "callout/call.h"
void F(const callout::Call& call) { call.result<float>(0)[0] = call.arg<float>(0)[0] + 1; }
CALLOUT_DEFINE_CALLBACK(buffer_f, F);
"""
    module = callout.cpp.load_inline(source)
    callout.register("buffer.native", f"{module.path}:buffer_f")
    callout.register("buffer.python", lambda x: x)
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    assert float(jax.jit(buffer_callback("buffer.native", scalar))(1.0)) == 2
    with pytest.raises(TypeError, match=r"'buffer\.python' is bound to a Python function of arrays"):
        buffer_callback("buffer.python", scalar)(1.0)
    callout.unregister("buffer.native")
    callout.unregister("buffer.python")


def both(ctx, out, x, y):
    np.asarray(out["sum"])[...] = np.asarray(x) + np.asarray(y)
    np.asarray(out["difference"])[...] = np.asarray(x) - np.asarray(y)


@pytest.fixture
def named():
    """Returns a function that binds a name until the test is over."""
    bound = []

    def bind(name, fn):
        callout.register(name, fn)
        bound.append(name)
        return name

    yield bind
    for name in bound:
        callout.unregister(name)


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_registered_function_of_buffers_is_called_by_its_name(named, run):
    results = {"difference": F3, "sum": F3}
    by_name = buffer_callback(named("buffer.both", buffer_callback(both, results)), results)
    out = run(by_name)(jnp.ones(3), jnp.arange(3.0))
    assert jax.tree.map(lambda leaf: leaf.tolist(), out) == {"difference": [1, 0, -1], "sum": [1, 2, 3]}
    fast = buffer_callback(callout.options(add_one, name="add one", numpy_only=True), F3)
    call = buffer_callback(named("buffer.add_one", fast), F3)
    before = callout.stats()["callbacks"].get("add one", {"calls": 0})["calls"]
    assert run(call)(jnp.arange(3.0)).tolist() == [1, 2, 3]
    assert callout.stats()["callbacks"]["add one"]["calls"] == before + 1


def test_the_advice_for_exporting_buffer_functions_works(named):
    call = jax.jit(buffer_callback(add_one, F3))
    with pytest.raises(
        ValueError,
        match=r"bind it by callout\.register\(name, callout\.buffer_callback\(fn, result_shape_dtypes\)\), in",
    ):
        callout.export(call)(F3)
    named("buffer.exported", buffer_callback(add_one, F3))
    exported = callout.export(jax.jit(buffer_callback("buffer.exported", F3)))(F3)
    callout.unregister("buffer.exported")
    unbound = callout.export(jax.jit(buffer_callback("buffer.exported", F3)))(F3)
    callout.register("buffer.exported", buffer_callback(add_one, F3))
    for program in (exported, unbound):
        assert jax.export.deserialize(program.serialize()).call(jnp.arange(3.0)).tolist() == [1, 2, 3]


def test_only_results_of_buffer_callback_register_as_buffer_functions(named):
    @functools.wraps(buffer_callback(add_one, F3))
    def of_arrays(x):
        return x + np.float32(2)

    name = named("buffer.wrapped", of_arrays)
    assert callout.pure_callback(name, F3, jnp.arange(3.0)).tolist() == [2, 3, 4]
    with pytest.raises(
        TypeError, match=r"Bind one of buffers, callout\.register\('buffer\.wrapped', callout\.buffer_call"
    ):
        buffer_callback(name, F3)(jnp.arange(3.0))


def test_a_callback_that_uses_jax():
    def through_jax(ctx, out, x):
        np.asarray(out)[...] = np.asarray(jnp.sin(np.array(x)))

    x = jnp.arange(3.0)
    np.testing.assert_allclose(jax.jit(buffer_callback(through_jax, F3))(x), np.sin(np.arange(3.0)), rtol=1e-6)


def test_a_callback_dies_with_its_program():
    before = callout.stats()["live"]["callbacks"]
    jax.jit(buffer_callback(lambda ctx, out, x: add_one(ctx, out, x), F3))(jnp.zeros(3)).block_until_ready()
    jax.clear_caches()
    gc.collect()
    assert callout.stats()["live"]["callbacks"] == before
