# SPDX-License-Identifier: Apache-2.0
"""Tests pure_callback under every transformation, and the behavior on which jax.pure_callback's users rely."""

import functools
import gc
import sys
import traceback
import weakref

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from platforms import SYNCHRONOUS, awaited

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def double(x):
    return x * np.float32(2)


def call_double(x):
    return callout.pure_callback(double, like(x), x)


def test_eager_returns_a_jax_array_on_the_default_device():
    y = call_double(jnp.float32(3))
    assert isinstance(y, jax.Array)
    assert y.dtype == jnp.float32
    assert float(y) == 6


def test_eager_runs_in_the_callers_stack():
    frames = []

    def callback(x):
        frames.extend(frame.name for frame in traceback.extract_stack())
        return x

    def caller(x):
        return callout.pure_callback(callback, F32, x)

    caller(jnp.float32(1))
    assert "caller" in frames


@pytest.mark.parametrize("call", [callout.pure_callback, callout.io_callback, callout.debug_callback])
def test_calls_with_constants_are_part_of_the_traced_program(call):
    called = []
    args = (called.append,) if call is callout.debug_callback else (called.append, None)
    x = jnp.float32(1)

    @jax.jit
    def program():
        call(*args, x)
        return x

    program.lower()
    assert not called
    call(*args, x)
    jax.effects_barrier()
    assert [float(value) for value in called] == [1]


def test_eager_calls_keep_no_function_alive():
    class Callback:
        def __call__(self, x):
            return x

    callback = Callback()
    gone = weakref.ref(callback)
    x = jnp.float32(1)
    for like in (x, jax.ShapeDtypeStruct((), jnp.float32)):
        assert float(callout.pure_callback(callback, like, x)) == 1
    callout.debug_callback(callback, x)
    callout.tap(callback, x)
    callout.barrier_wait()
    del callback
    gc.collect()
    assert gone() is None


@pytest.mark.devices(2)
def test_eager_result_follows_a_committed_operand():
    device = jax.devices()[1]
    y = call_double(jax.device_put(jnp.float32(1), device))
    assert y.devices() == {device}
    assert y.committed


def test_jit_gives_numpy_arrays_to_the_callback():
    kinds = []

    def callback(x, s):
        kinds.append((type(x), x.shape, type(s), s.shape, x.flags.writeable))
        return x

    f = jax.jit(lambda x, s: callout.pure_callback(callback, like(x), x, s))
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(f(x, jnp.float32(1)), x)
    assert kinds == [(np.ndarray, (3,), np.ndarray, (), True)]


def test_arguments_may_be_kept():
    kept = []
    f = jax.jit(
        lambda x: lax.fori_loop(0, 50, lambda i, c: callout.pure_callback(lambda v: kept.append(v) or v + 1, F32, c), x)
    )
    assert float(f(jnp.float32(0))) == 50
    assert [float(k) for k in kept] == list(range(50))


@pytest.mark.parametrize("size", [1 << 10, 1 << 18])
def test_large_arguments_may_be_kept(size):
    kept = []

    def callback(x):
        kept.append(x)
        return x + np.float32(1)

    f = jax.jit(lambda x: lax.fori_loop(0, 5, lambda i, c: callout.pure_callback(callback, like(x), c), x))
    np.testing.assert_array_equal(f(jnp.zeros(size)), np.full(size, 5.0))
    assert [float(k[-1]) for k in kept] == [0, 1, 2, 3, 4]


def test_nested_jit_and_aot():
    f = jax.jit(lambda x: jax.jit(call_double)(x) + 1)
    assert float(f(3.0)) == 7
    compiled = f.lower(jnp.float32(3)).compile()
    assert [float(compiled(jnp.float32(i))) for i in range(4)] == [1, 3, 5, 7]


def test_cond_switch_while_scan():
    f = jax.jit(lambda p, x: lax.cond(p, call_double, lambda x: x, x))
    assert float(f(True, 3.0)) == 6
    assert float(f(False, 3.0)) == 3
    g = jax.jit(lambda i, x: lax.switch(i, [call_double, lambda x: x + 1], x))
    assert [float(g(i, 3.0)) for i in (0, 1)] == [6, 4]
    below_100 = lambda x: callout.pure_callback(lambda v: v < 100, jax.ShapeDtypeStruct((), jnp.bool_), x)  # noqa: E731
    assert float(jax.jit(lambda x: lax.while_loop(below_100, call_double, x))(1.0)) == 128
    _, ys = jax.jit(lambda xs: lax.scan(lambda c, x: (c, call_double(x)), 0, xs))(jnp.arange(4.0))
    np.testing.assert_array_equal(ys, [0, 2, 4, 6])


def test_pytrees_and_keywords():
    def callback(tree, *, scale):
        assert set(tree) == {"a", "b"}
        return {"sum": tree["a"] + tree["b"][0], "scaled": (tree["a"] * scale,)}

    spec = {"sum": F32, "scaled": (F32,)}
    f = jax.jit(lambda a, b, s: callout.pure_callback(callback, spec, {"a": a, "b": [b]}, scale=s))
    out = f(1.0, 2.0, 3.0)
    assert float(out["sum"]) == 3
    assert float(out["scaled"][0]) == 3


def test_zero_size_and_many_operands():
    f = jax.jit(lambda x: callout.pure_callback(lambda v: v.sum(axis=1), jax.ShapeDtypeStruct((4,), "float32"), x))
    np.testing.assert_array_equal(f(jnp.zeros((4, 0))), np.zeros(4))
    g = jax.jit(lambda xs: callout.pure_callback(lambda *v: sum(v), F32, *xs))
    assert float(g([jnp.float32(i) for i in range(40)])) == sum(range(40))
    assert float(jax.jit(lambda: callout.pure_callback(lambda: np.float32(7), F32))()) == 7


def test_prng_keys_arrive_as_their_data():
    seen = []

    def callback(key):
        seen.append((key.dtype, key.shape))
        return np.uint32(key[-1])

    f = jax.jit(lambda key: callout.pure_callback(callback, jax.ShapeDtypeStruct((), "uint32"), key))
    assert int(f(jax.random.key(5))) == 5
    assert int(callout.pure_callback(callback, jax.ShapeDtypeStruct((), "uint32"), jax.random.key(6))) == 6
    assert seen == [(np.uint32, (2,))] * 2


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]
)
@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 0), (1, 0)])
def test_vmap_methods(method, in_axes):
    shapes = []

    def callback(x, y):
        shapes.append((x.shape, y.shape))
        return (
            x + y
            if method != "legacy_vectorized" or y.ndim == x.ndim
            else x + y.reshape(y.shape + (1,) * (x.ndim - y.ndim))
        )

    def f(x, y):
        return callout.pure_callback(callback, F32, x, y, vmap_method=method)

    x = jnp.arange(3.0) if in_axes[0] == 0 else (jnp.arange(3.0)[None] if in_axes[0] == 1 else jnp.float32(1))
    y = jnp.arange(3.0) * 10 if in_axes[1] == 0 else jnp.float32(2)
    if in_axes[0] == 1:

        def f(x, y):
            return callout.pure_callback(lambda v, w: callback(v.sum(axis=-1), w), F32, x, y, vmap_method=method)

    expected = jax.vmap(lambda a, b: jnp.sum(a) + b, in_axes)(x, y)
    np.testing.assert_array_equal(jax.jit(jax.vmap(f, in_axes))(x, y), expected)
    assert len(shapes) == (3 if method.startswith("sequential") else 1)


def test_vmap_methods_pass_the_documented_shapes():
    shapes = []

    def f(x, y, method):
        def callback(x, y):
            shapes.append((method, x.shape, y.shape))
            return x + y

        return callout.pure_callback(callback, F32, x, y, vmap_method=method)

    for method in ("expand_dims", "broadcast_all", "legacy_vectorized"):
        jax.vmap(lambda x, y, m=method: f(x, y, m), in_axes=(0, None))(jnp.arange(4.0), jnp.float32(1))
    assert shapes == [("expand_dims", (4,), (1,)), ("broadcast_all", (4,), (4,)), ("legacy_vectorized", (4,), ())]


def test_nested_vmap():
    f = lambda x, y: callout.pure_callback(np.add, F32, x, y, vmap_method="broadcast_all")  # noqa: E731
    g = jax.jit(jax.vmap(jax.vmap(f, (0, None)), (None, 0)))
    np.testing.assert_array_equal(
        g(jnp.arange(3.0), jnp.arange(2.0) * 10), np.arange(2.0)[:, None] * 10 + np.arange(3.0)
    )


def test_missing_and_wrong_vmap_methods_are_rejected():
    with pytest.raises(NotImplementedError, match="vmap_method=None"):
        jax.vmap(call_double)(jnp.arange(3.0))
    with pytest.raises(ValueError, match=r"vmap_method must be one of .* got: nope"):
        callout.pure_callback(double, F32, 1.0, vmap_method="nope")


def test_derivatives_are_refused_without_a_rule_and_work_with_one():
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.grad(call_double)(1.0)

    @jax.custom_jvp
    def sin(x):
        return callout.pure_callback(np.sin, F32, x)

    sin.defjvp(lambda primals, tangents: (sin(*primals), callout.pure_callback(np.cos, F32, *primals) * tangents[0]))
    np.testing.assert_allclose(jax.jit(jax.grad(sin))(0.5), np.cos(0.5), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.checkpoint(sin)))(0.5), np.cos(0.5), rtol=1e-6)

    @jax.custom_vjp
    def square(x):
        return callout.pure_callback(lambda v: v * v, F32, x)

    square.defvjp(lambda x: (square(x), x), lambda x, ct: (callout.pure_callback(lambda v, c: 2 * v * c, F32, x, ct),))
    assert float(jax.jit(jax.grad(square))(3.0)) == 6


def cache_misses(f, *args):
    """Returns the number of calls of f that JAX's C++ fast path did not take."""
    misses = 0

    def profile(frame, event, _):
        nonlocal misses
        if event == "call" and frame.f_code.co_name == "cache_miss":
            misses += 1

    sys.setprofile(profile)
    try:
        f(*args)
    finally:
        sys.setprofile(None)
    return misses


def test_second_call_takes_the_fast_path():
    f = jax.jit(call_double)
    x = jnp.float32(1)
    assert cache_misses(f, x) == 1
    assert [cache_misses(f, x) for _ in range(3)] == [0, 0, 0]


def test_unused_calls_are_dropped_and_equal_ones_may_merge():
    calls = []
    f = jax.jit(lambda x: (callout.pure_callback(lambda v: calls.append(1) or v, F32, x), x + 1)[1])
    assert float(f(1.0)) == 2
    assert calls == []


def test_x64():
    with jax.enable_x64(True):
        f = jax.jit(lambda x: callout.pure_callback(lambda v: v * 2, jax.ShapeDtypeStruct((), np.float64), x))
        out = f(np.float64(1e-300))
        assert out.dtype == np.float64
        assert float(out) == 2e-300


def test_a_kept_zero_copy_argument_is_an_error():
    kept = []
    f = jax.jit(
        lambda x: callout.pure_callback(callout.options(lambda v: kept.append(v[1:]) or v, zero_copy=True), like(x), x)
    )
    with pytest.raises(callout.CallbackError, match="kept argument 0"), callout.reraise():
        awaited(f(jnp.zeros(4)))


@pytest.mark.native_only(SYNCHRONOUS)
@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
def test_numpy_only_programs_are_dispatched_asynchronously():
    import threading

    release = threading.Event()
    callback = callout.options(lambda v: release.wait(30) and v, numpy_only=True)
    heavy = jax.jit(lambda m: callout.pure_callback(callback, F32, jnp.tanh(m @ m).sum()))
    out = heavy(jnp.ones((300, 300)))  # returns while the callback waits for the event below
    assert not out.is_ready()
    release.set()
    out.block_until_ready()


@pytest.mark.parametrize("call", [callout.pure_callback, callout.io_callback])
@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_call_without_a_shape_raises_with_a_corrected_call(call, run):
    message = (
        rf"callout\.{call.__name__}: 'numpy\.sin' needs arguments, and gets none: .* come after that: "
        rf"callout\.{call.__name__}\(sin, jax\.ShapeDtypeStruct\(x\.shape, x\.dtype\), x\)"
    )
    for fn in (np.sin, lambda v: v):
        with pytest.raises(TypeError, match=message if fn is np.sin else "needs arguments, and gets none"):
            run(lambda x, fn=fn: call(fn, x))(jnp.ones(3))
    for fn in (lambda: np.zeros(3, np.float32), functools.partial(np.zeros, 3, np.float32)):
        assert run(lambda x, fn=fn: call(fn, x))(jnp.ones(3)).tolist() == [0, 0, 0]


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="expected a callable or the name"):
        callout.pure_callback(3, F32, 1.0)
    with pytest.raises(TypeError, match="`shape` and `dtype`"):
        callout.pure_callback(double, "string", 1.0)
    with pytest.raises(TypeError, match=r"callout.pure_callback: argument 0 must be a pytree of arrays .*got 'text'"):
        callout.pure_callback(double, F32, "text")
    with pytest.raises(TypeError, match=r"pure_callback: argument 1 must be .* got 'text' of type str at \[0\]$"):
        callout.pure_callback(double, F32, 1.0, ["text"])
    with pytest.raises(TypeError, match=r"pure_callback: argument 'b' must be .* got 'text' of type str$"):
        callout.pure_callback(double, F32, 1.0, b="text")
    with pytest.raises(TypeError, match="is a sink"):
        callout.pure_callback(callout.sinks.Null(), F32, 1.0)
    with pytest.raises(NotImplementedError, match="SingleDeviceSharding"):
        callout.pure_callback(double, F32, 1.0, sharding=object())
    with pytest.raises(ValueError, match='must be "numpy" or "jax"'):
        callout.options(double, args="torch")
