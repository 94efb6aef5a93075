# SPDX-License-Identifier: Apache-2.0
"""Tests every entry point in a shard_map that tracks over which axes values vary (`check_vma=True`, JAX's default)."""

import contextlib
import functools
from collections import Counter

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import ffi
from callout._callbacks.derivatives import call_with_rules
from callout.buffer_callback import buffer_callback
from callout.numba import numba_kernel
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

numba = pytest.importorskip("numba")

pytestmark = pytest.mark.devices(8)

WHOLE = np.arange(8, dtype=np.float32)


def plus_one(value):
    return value + np.float32(1)


def fill(_, out, value):
    np.asarray(out)[...] = np.asarray(value) + np.float32(1)


def like(value):
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


@pytest.fixture(scope="module")
def native(cache):
    source = """
    #include "callout/kernel.h"
    void plus_one(callout::In<float> x, callout::Out<float> y) {
      for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + 1;
    }
    CALLOUT_KERNEL(plus_one);
    """
    return callout.cpp.load_inline(source, {"plus_one": {"vmap_method": "parallel"}})


@pytest.fixture
def heard():
    """Returns the elements that callbacks received."""
    return []


@pytest.fixture
def entry(request, native, handlers, heard):
    """Returns a function that adds one and uses the entry point."""
    del handlers

    def hear(value, *_):
        heard.extend(np.ravel(value).tolist())

    def asked(value):
        hear(value)
        return plus_one(value)

    return {
        "pure": lambda v: callout.pure_callback(plus_one, like(v), v, vmap_method="sequential"),
        "pure of the batch": lambda v: callout.pure_callback(plus_one, like(v), v, vmap_method="broadcast_all"),
        "io": lambda v: callout.io_callback(asked, like(v), v),
        "ordered io": lambda v: callout.io_callback(asked, like(v), v, ordered=True),
        "debug": lambda v: callout.debug_callback(hear, v) or v + 1,
        "ordered debug": lambda v: callout.debug_callback(hear, v, ordered=True) or v + 1,
        "tap": lambda v: callout.tap(hear, v) + 1,
        "ordered tap": lambda v: callout.tap(hear, v, ordered=True) + 1,
        "sink": lambda v: callout.tap(callout.sinks.Null(), v) + 1,
        "watch": lambda v: callout.watch(v, "varying", gradient=True) + 1,
        "buffer": lambda v: buffer_callback(fill, like(v), vmap_method="sequential")(v),
        "acting buffer": lambda v: buffer_callback(fill, like(v), vmap_method="sequential", has_side_effect=True)(v),
        "ffi": lambda v: ffi.ffi_call("test.affine", like(v), vmap_method="sequential")(
            v, a=np.float32(1), b=np.int64(1)
        ),
        "acting ffi": lambda v: ffi.ffi_call("test.affine", like(v), has_side_effect=True, vmap_method="sequential")(
            v, a=np.float32(1), b=np.int64(1)
        ),
        "cpp": native.plus_one,
        "numba": lambda v: numba_kernel(numba_plus_one, like(v), vmap_method="sequential")(v),
        "id_tap": lambda v: hcb.id_tap(hear, v) + 1,
        "id_print": lambda v: hcb.id_print(v, output_stream=Nowhere(), what="varying") + 1,
        "call": lambda v: hcb.call(asked, v, result_shape=like(v)),
        "threaded": callout.threaded(lambda v: callout.io_callback(plus_one, like(v), callout.tap(print_nothing, v))),
        "progress": with_bar,
        "check": lambda v: callout.check((v >= -1).all(), "{v}", v=v) or v + 1,
        "error_if": lambda v: callout.error_if(v, v < -1, "below -1: {value}") + 1,
        "warn_if": lambda v: callout.warn_if(v, v < -1, "below -1: {value}") + 1,
        "error_if or NaN": lambda v: callout.error_if(v, v < -1, "below -1: {value}", on_error="nan") + 1,
    }[request.param]


def print_nothing(_):
    pass


class Nowhere:
    def write(self, _):
        pass

    def flush(self):
        pass


def with_bar(value):
    bar = callout.progress.progress(desc="varying", tqdm_type="std", file=Nowhere())
    return jax.lax.scan(bar(lambda c, _: (c + 0.25, None)), value, None, length=4)[0]


@numba.njit
def numba_plus_one(x, out):
    for i in range(x.size):
        out[i] = x[i] + np.float32(1)


ENTRIES = [
    *("pure", "pure of the batch", "io", "ordered io", "debug", "ordered debug", "tap", "ordered tap", "sink", "watch"),
    *("buffer", "acting buffer", "ffi", "acting ffi", "cpp", "numba", "id_tap", "id_print", "call", "threaded"),
    *("progress", "check", "error_if", "warn_if", "error_if or NaN"),
]

# Entry points that receive a value once each time the program reaches them.
HEARING = ["io", "ordered io", "debug", "ordered debug", "tap", "ordered tap", "id_tap"]


def differentiable(fn):
    """Gives `fn` the derivative of the identity."""
    wrapped = jax.custom_jvp(fn)
    wrapped.defjvp(lambda primals, tangents: (fn(*primals), tangents[0]))
    return wrapped


def scan(fn, v):
    return jax.lax.scan(lambda c, _: (fn(c), None), v, None, length=3)[0]


def while_loop(fn, v):
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, fn(c[1])), (0, v))[1]


def cond(fn, v):
    return jax.lax.cond(v[0] > 1, fn, lambda c: c, v)


def grad(fn, v):
    return jax.grad(lambda c: (differentiable(fn)(c) ** 2).sum())(v)


def grad_of_scan(fn, v):
    return jax.grad(lambda c: (scan(differentiable(fn), c) ** 2).sum())(v)


def vmap(fn, v):
    return jax.vmap(fn)(v[:, None])[:, 0]


def remat(fn, v):
    return jax.grad(lambda c: jnp.sin(jax.checkpoint(differentiable(fn))(jnp.sin(c))).sum())(v)


TRANSFORMATIONS = {f.__name__: f for f in (scan, while_loop, cond, grad, grad_of_scan, vmap, remat)}

# Combinations that JAX's own callbacks reject, too.
REFUSED = {
    ("ordered io", "vmap"): "Cannot `vmap` ordered IO callbacks",
    ("call", "vmap"): "batching rules are implemented only for id_tap",
    **{(name, "remat"): "Effects not supported in" for name in ("io", "ordered io", "acting buffer")},
}


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=str)
def mesh(request):
    return jax.make_mesh((4, 2), ("a", "b"), axis_types=(request.param,) * 2)


@functools.cache
def elements_of_one_device(name):
    """Returns what `jax.debug.callback` receives from the shards' programs on one device, without a shard_map."""
    heard = []
    program = jax.jit(
        lambda v: TRANSFORMATIONS[name](lambda c: jax.debug.callback(lambda a: heard.extend(a.tolist()), c) or c + 1, v)
    )
    for i in range(0, 8, 2):
        program(WHOLE[i : i + 2])
    jax.effects_barrier()
    return Counter(np.ravel(heard).tolist())


def run_on(mesh, fn, *out_axes, x=WHOLE):
    x = jax.device_put(x, NamedSharding(mesh, P("a")))
    y = jax.jit(jax.shard_map(fn, mesh=mesh, in_specs=P("a"), out_specs=P(*out_axes)))(x)
    jax.effects_barrier()
    callout.barrier_wait(60)
    return np.asarray(y)


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("entry", platforms.entries(ENTRIES), indirect=True)
def test_results_vary_like_the_operands(request, mesh, entry, transformation, heard):
    transformed = TRANSFORMATIONS[transformation]
    name = request.node.callspec.params["entry"]
    reason = REFUSED.get((name, transformation))
    if reason is not None:
        with pytest.raises((NotImplementedError, ValueError), match=reason):
            run_on(mesh, lambda v: transformed(entry, v), "a")
        return
    expected = [transformed(lambda v: v + 1, jnp.asarray(WHOLE[i : i + 2])) for i in range(0, 8, 2)]
    np.testing.assert_allclose(run_on(mesh, lambda v: transformed(entry, v), "a"), np.concatenate(expected), rtol=1e-6)
    if name in HEARING:
        once = elements_of_one_device(transformation)  # each shard is on two devices
        assert Counter(heard) == once + once


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_a_check_that_fails_on_one_shard_is_raised(mesh, transformation):
    """No device waits for another, so each runs to its end."""

    def checked(v):
        return callout.error_if(v, jnp.isnan(v), "not a number: {value}") + 1

    with pytest.raises(callout.CheckError, match="check failed: not a number: nan "):
        run_on(mesh, lambda v: TRANSFORMATIONS[transformation](checked, v), "a", x=np.where(WHOLE == 7, np.nan, WHOLE))
    # Each barrier may raise the error again: see the next test. On CUDA, the next program on each shard's device raises
    # it.
    for _ in range(len(jax.devices()) if platforms.ON_CUDA else 0):
        with contextlib.suppress(callout.CheckError, callout.TapError):
            callout.barrier_wait()
            jax.effects_barrier()
    np.testing.assert_array_equal(run_on(mesh, checked, "a"), WHOLE + 1)


@pytest.mark.cpu_only("JAX 0.10's barriers do not raise what failed on CPUs where GPUs are the default")
def test_programs_with_effects_end_the_barriers_errors():
    """JAX's own callbacks do so: docs/errors.md. With JAX 0.10 each barrier raises the error, with 0.12 one does."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), "a")

    def refuse_zero(value):
        if not value.all():
            raise ValueError("a zero")

    def program(v):
        jax.debug.callback(refuse_zero, v)
        return v + 1

    with pytest.raises(jax.errors.JaxRuntimeError, match="a zero"):
        run_on(mesh, program, "a")
    if jax.__version_info__ < (0, 11):
        for _ in range(2):
            with pytest.raises(jax.errors.JaxRuntimeError, match="a zero"):
                jax.effects_barrier()
    np.testing.assert_array_equal(run_on(mesh, program, "a", x=WHOLE + 1), WHOLE + 2)


JAX_S_OWN = {
    "pure": lambda v: jax.pure_callback(plus_one, like(v), v),
    "io": lambda v: jax.experimental.io_callback(plus_one, like(v), v),
}


@pytest.mark.parametrize("transformation", ["scan", "while_loop", "cond", "grad_of_scan"])
@pytest.mark.parametrize("name", JAX_S_OWN)
def test_jax_s_own_callbacks_lose_the_axes(mesh, name, transformation):
    """docs/devices.md says so; the programs are those of the test above."""
    with pytest.raises(TypeError, match=r"\{V:a\}"):
        run_on(mesh, lambda v: TRANSFORMATIONS[transformation](JAX_S_OWN[name], v), "a")


def test_operands_may_vary_differently(mesh):
    def step(v):
        column = jax.lax.axis_index("b").astype(np.float32)
        y = callout.pure_callback(lambda *parts: sum(parts[1:], parts[0]), like(v), v, column, np.float32(0.5))
        assert jax.typeof(y).manual_axis_type.varying == {"a", "b"}
        alike = callout.pure_callback(plus_one, like(v), np.zeros(2, np.float32))
        assert not jax.typeof(alike).manual_axis_type.varying
        return y

    np.testing.assert_array_equal(run_on(mesh, step, ("a", "b")).reshape(4, 2, 2)[:, 1].ravel(), WHOLE + 1.5)


@pytest.mark.collectives
@pytest.mark.parametrize("call", [callout.io_callback, lambda f, like: hcb.call(lambda _: f(), (), result_shape=like)])
def test_results_without_operands_vary_over_all_axes(mesh, call):
    """Otherwise a gradient with respect to a replicated value would be that of one device's data."""
    batches = iter(range(1, 9))

    def step(v):
        batch = call(lambda: np.float32(next(batches)), jax.ShapeDtypeStruct((), jnp.float32))
        assert jax.typeof(batch).manual_axis_type.varying == {"a", "b"}
        weight = jnp.float32(2) + 0 * jax.lax.psum(v.sum(), "a")
        return jax.grad(lambda w: w * batch)(weight)[None]

    assert run_on(mesh, step).tolist() == [sum(range(1, 9))]


def test_a_result_type_may_state_its_varying_axes(mesh):
    varies = jax.sharding.ManualAxisType(varying={"a"})
    said = jax.ShapeDtypeStruct((2,), jnp.float32, manual_axis_type=varies)

    def ask(*_):
        return np.float32([1, 2])

    calls = [
        lambda: callout.io_callback(ask, said),
        lambda: callout.pure_callback(ask, said),
        lambda: hcb.call(ask, (), result_shape=said),
    ]
    if not platforms.ON_CUDA and not platforms.BY_FALLBACK:  # NumPy cannot write a device's memory
        calls.append(lambda: buffer_callback(lambda _, out: fill(_, out, ask() - 1), said)())
    for call in calls:
        assert run_on(mesh, lambda _, call=call: call(), "a").tolist() == [1, 2] * 4


@pytest.mark.collectives
@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_rules_of_calls_sum_cotangents_of_replicated_values(mesh, rule):
    """The call has a derivative rule, and takes a value that varies and one that does not."""

    def product(x, y):
        rules = {
            "jvp": lambda xy, dxy: (call(*xy), xy[1] * dxy[0] + xy[0] * dxy[1]),
            "vjp": (lambda x, y: (call(x, y), (x, y)), lambda kept, ct: (kept[1] * ct, kept[0] * ct)),
        }
        call = buffer_callback(lambda _, out, a, b: np.multiply(a, b, out=np.asarray(out)) is None, like(x))
        return call_with_rules(call, (x, y), {}, **{rule: rules[rule]})

    def step(v):
        same = jnp.float32([3, 4]) + 0 * jax.lax.psum(v, "a")
        return jax.grad(lambda w: product(v, w).sum())(same)

    assert run_on(mesh, step).tolist() == [0 + 2 + 4 + 6, 1 + 3 + 5 + 7]


def test_without_the_check_results_have_no_axes(mesh):
    def step(v):
        y = callout.pure_callback(plus_one, jax.ShapeDtypeStruct((2,), jnp.float32), v)
        assert not jax.typeof(y).manual_axis_type.varying
        return y

    x = jax.device_put(WHOLE, NamedSharding(mesh, P("a")))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=False)
    np.testing.assert_array_equal(jax.jit(mapped)(x), WHOLE + 1)


def test_eager_shard_map(mesh):
    x = jax.device_put(WHOLE, NamedSharding(mesh, P("a")))
    mapped = jax.shard_map(
        lambda v: scan(lambda c: callout.io_callback(plus_one, like(c), c), v),
        mesh=mesh,
        in_specs=P("a"),
        out_specs=P("a"),
    )
    np.testing.assert_array_equal(mapped(x), WHOLE + 3)
