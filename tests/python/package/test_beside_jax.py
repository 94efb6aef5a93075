# SPDX-License-Identifier: Apache-2.0
"""Tests the equalities and differences to JAX's own callbacks in docs/migrating.md, and JAX's check for leaked tracers."""

import functools
import logging

import callout
import callout.host_callback
import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax.experimental import roofline
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

F32 = jax.ShapeDtypeStruct((), jnp.float32)
I32 = jax.ShapeDtypeStruct((), jnp.int32)
PURE = (jax.pure_callback, callout.pure_callback)
IO = (jax.experimental.io_callback, callout.io_callback)
DEBUG = (jax.debug.callback, callout.debug_callback)


@pytest.fixture(autouse=True)
def quiet():
    """Silences JAX's log of failing callbacks."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def outcome(run):
    """Returns the result as a list, or the name of the exception's first public class."""
    try:
        return np.asarray(run()).tolist()
    except Exception as error:  # noqa: BLE001
        return next(kind for kind in type(error).__mro__ if kind.__module__ in ("builtins", "jax.errors")).__name__


def compiled(result, spec):
    return lambda pure: jax.jit(lambda x: pure(lambda v: result, spec, x))(jnp.float32(1))


@pytest.mark.parametrize(
    ("run", "jax_gives", "callout_gives"),
    [
        (compiled(2.5, F32), 2.5, 2.5),
        (compiled(np.float64(2.5), F32), 2.5, 2.5),
        (compiled(None, F32), "JaxRuntimeError", "JaxRuntimeError"),
        (compiled(np.zeros(3, np.float32), F32), "JaxRuntimeError", "JaxRuntimeError"),
        (compiled(2.5, I32), "JaxRuntimeError", "JaxRuntimeError"),
        (compiled(3, F32), "JaxRuntimeError", 3.0),
        (compiled(2**40, I32), 0, "JaxRuntimeError"),
        (lambda pure: jax.grad(lambda x: pure(np.sin, F32, x))(1.0), "ValueError", "ValueError"),
        (lambda pure: jax.vmap(lambda x: pure(np.sin, F32, x))(jnp.ones(2)), *["NotImplementedError"] * 2),
        (lambda pure: pure(np.sin, jax.ShapeDtypeStruct((), np.float64), 1.0), "ValueError", "ValueError"),
    ],
)
def test_results_and_refusals(run, jax_gives, callout_gives):
    assert [outcome(lambda: run(pure)) for pure in PURE] == [jax_gives, callout_gives]  # noqa: B023


def test_arguments():
    def kinds(pure):
        seen = []
        jax.jit(lambda x, k: pure(lambda v, k: seen.append((type(v), v.dtype, k.dtype, k.shape)) or v, F32, x, k))(
            1.0, jax.random.key(0)
        ).block_until_ready()
        return seen[0]

    ours, theirs = kinds(callout.pure_callback), kinds(jax.pure_callback)
    assert ours[0] is np.ndarray
    assert issubclass(theirs[0], jax.Array)
    assert ours[1:] == theirs[1:]


@pytest.mark.parametrize("pair", [PURE, IO])
def test_eager_exceptions(pair):
    def fail(_):
        raise KeyError("mine")

    assert [outcome(lambda: call(fail, F32, 1.0)) for call in pair] == ["JaxRuntimeError", "KeyError"]  # noqa: B023


@pytest.mark.parametrize("ordered", [False, True])
def test_debug_callbacks_under_vmap(ordered):
    def heard(debug):
        seen = []
        jax.jit(jax.vmap(lambda x: debug(lambda v: seen.append(int(v)), x, ordered=ordered)))(jnp.arange(5))
        jax.effects_barrier()
        return seen

    assert [heard(debug) for debug in DEBUG] == [[0, 1, 2, 3, 4]] * 2
    lengths = [
        len(jax.make_jaxpr(jax.vmap(lambda x: debug(print, x)))(jnp.arange(50)).eqns)  # noqa: B023
        for debug in DEBUG
    ]
    assert lengths[0] > 50 > lengths[1]


def test_results_that_are_not_declared():
    for io in IO:
        assert jax.jit(lambda x: io(lambda v: None, None, x))(1.0) is None  # noqa: B023
        assert jax.jit(lambda x: io(lambda v: None, (), x))(1.0) == ()  # noqa: B023
    for debug in DEBUG:
        jax.jit(lambda x: debug(lambda v: v, x))(1.0)  # noqa: B023
    jax.effects_barrier()


@pytest.mark.collectives
@pytest.mark.parametrize("partitioned", [False, True])
def test_debug_callbacks_over_devices(partitioned):
    mesh = Mesh(np.asarray(jax.devices()[:2]), "d")
    x = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, P("d")))

    def heard(debug):
        seen = []
        jax.jit(lambda v: debug(lambda a: seen.append(np.asarray(a).tolist()), v, partitioned=partitioned))(x)
        jax.effects_barrier()
        return sorted(seen)

    assert heard(callout.debug_callback) == heard(jax.debug.callback)


@pytest.mark.collectives
@pytest.mark.devices(2)
def test_results_of_calls_over_devices_are_on_all_of_them():
    mesh = Mesh(np.asarray(jax.devices()[:2]), "d")
    x = jax.device_put(jnp.arange(1.0, 5.0), NamedSharding(mesh, P("d")))
    like = jax.ShapeDtypeStruct((4,), jnp.float32)

    def shards(pure):
        y = jax.jit(lambda v: pure(lambda a: np.asarray(a), like, v))(x)
        return [shard.data.tolist() for shard in y.addressable_shards]

    assert shards(callout.pure_callback) == [[1, 2, 3, 4]] * 2
    assert shards(jax.pure_callback)[0] == [1, 2, 3, 4]  # the other shard is not filled


def test_rooflines_count_no_operations_of_a_callback():
    def counted(pure):
        _, found = roofline.roofline(lambda x: pure(lambda v: v, F32, x) * 2)(F32)
        return found

    ours, of_jax = counted(callout.pure_callback), counted(jax.pure_callback)
    assert (ours.flops, ours.unfused_flops, ours.hbm_bytes) == (of_jax.flops, of_jax.unfused_flops, of_jax.hbm_bytes)
    assert ours.unfused_flops == 1  # the product's
    assert of_jax.unfused_hbm_bytes - ours.unfused_hbm_bytes == 8  # the callback's operand and result


def told(*_):
    """Receives the callbacks of the programs below, and keeps nothing."""


def given(v, *_):
    return v


def in_loops(f):
    """Applies `f` in the loops, branches and lanes that Callout rewrites."""

    def step(c, x):
        return f(c + x), jax.vmap(lambda lane: jax.lax.cond(lane > 1, f, lambda lane: lane, lane))(jnp.stack([x, c]))

    def run(xs):
        c, ys = jax.lax.scan(step, xs[0], xs)
        return jax.vmap(lambda y: jax.lax.while_loop(lambda v: v < 9, lambda v: f(v) + 1, y))(ys[-1]) + c

    return run


def with_bars(f):
    bar = functools.partial(callout.progress.progress, disable=True)

    def run(xs):
        c, ys = jax.lax.scan(bar(last=lambda out: out[0])(lambda c, x: (f(c + x), c)), xs[0], xs)
        c = jax.lax.fori_loop(0, 3, bar()(lambda i, c: f(c)), c)
        return jax.vmap(lambda y: jax.lax.while_loop(lambda v: v < 9, bar()(lambda v: f(v) + 1), y))(ys) + c

    return run


@functools.cache
def kernel():
    numba = pytest.importorskip("numba")
    import callout.numba

    @numba.njit
    def copied(x, out):
        out[...] = x

    return functools.partial(callout.numba.numba_kernel, copied)


def native(x):
    def rule(primals, tangents):
        return primals[0], tangents[0]

    return kernel()(x, vmap_method="parallel").options(jvp=rule)(x)


ENTRIES = {
    "pure_callback": lambda x: callout.pure_callback(given, x, x, vmap_method="sequential"),
    "io_callback": lambda x: callout.io_callback(given, x, x),
    "debug_callback": lambda x: (callout.debug_callback(told, x), x)[1],
    "tap": lambda x: callout.tap(told, {"x": x}, name="test_beside_jax", step=3)["x"],
    "watch": lambda x: callout.watch(x, "test_beside_jax"),
    "error_if": lambda x: callout.error_if(x, x < -9, "{v}", v=x, on_error="nan"),
    "check": lambda x: (callout.check(x > -9, "{v}", v=x), x)[1],
    "id_tap": lambda x: callout.host_callback.id_tap(told, x),
    "native": pytest.param(
        native, marks=[pytest.mark.cpu_only(platforms.COMPILERS), pytest.mark.native_only(platforms.BUFFERS)]
    ),
}
AROUND = {
    "alone": lambda f: lambda xs: f(xs[0]),
    "loops": in_loops,
    "threaded": lambda f: callout.threaded(lambda xs: jax.lax.scan(lambda c, x: (f(c + x), c), xs[0], xs)),
    "progress": with_bars,
    "locate_nans": lambda f: callout.locate_nans(lambda xs: jax.lax.scan(lambda c, x: (f(c + x), c), xs[0], xs)),
    "gradient": lambda f: jax.grad(callout.locate_nans(lambda xs: jax.checkpoint(f)(xs[0]) ** 2)),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_no_tracer_outlives_its_trace(entry, around):
    xs = jnp.arange(3.0)
    if around is AROUND["gradient"] and entry in (ENTRIES["pure_callback"], ENTRIES["io_callback"]):
        return  # JAX's callbacks have none
    with jax.check_tracer_leaks():
        jax.block_until_ready(jax.jit(around(entry))(xs))
    callout.barrier_wait()
