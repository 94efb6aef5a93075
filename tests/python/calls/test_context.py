# SPDX-License-Identifier: Apache-2.0
"""Tests the context in which callbacks run: context variables, thread locals, JAX's settings; and asyncio around them."""

import asyncio
import contextvars
import threading

import callout
import callout.host_callback
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

F32 = jax.ShapeDtypeStruct((), jnp.float32)
request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")
local = threading.local()


class Look:
    """A callback that records its thread and the context that it sees."""

    def __init__(self):
        self.seen = []

    def __call__(self, value):
        self.seen.append(
            {
                "thread": threading.get_ident(),
                "request": request.get(),
                "local": getattr(local, "value", "none"),
                "x64": jax.config.jax_enable_x64,
                "device": jax.config.jax_default_device,
            }
        )
        return value


@pytest.fixture(autouse=True)
def caller():
    token = request.set("caller")
    local.value = "caller"
    yield
    request.reset(token)
    del local.value


def spread():
    """Returns a value over two devices, whose programs XLA runs in threads of its own."""
    sharding = NamedSharding(Mesh(np.asarray(jax.devices()[:2]), "d"), P("d"))
    return jax.device_put(jnp.arange(2.0), sharding)


def test_eager_calls_are_in_the_callers_thread_and_context():
    look = Look()
    callout.pure_callback(look, F32, 1.0)
    (seen,) = look.seen
    assert seen["thread"] == threading.get_ident()
    assert (seen["request"], seen["local"]) == ("caller", "caller")


def test_context_variables_set_by_an_eager_call_stay_set():
    callout.pure_callback(lambda v: request.set("changed") and v, F32, 1.0)
    assert request.get() == "changed"


def test_compiled_calls_see_the_caller_only_in_its_thread():
    look = Look()
    f = jax.jit(lambda x: callout.pure_callback(look, F32, x))
    for _ in range(5):
        f(jnp.float32(1)).block_until_ready()
    for seen in look.seen:
        expected = "caller" if seen["thread"] == threading.get_ident() else "none"
        assert (seen["request"], seen["local"]) == (expected, expected)


@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
def test_calls_on_threads_of_xla_do_not_see_the_caller():
    look = Look()
    like = jax.ShapeDtypeStruct((2,), jnp.float32)
    jax.jit(lambda x: callout.pure_callback(look, like, x))(spread()).block_until_ready()
    (seen,) = look.seen
    assert seen["thread"] != threading.get_ident()
    assert (seen["request"], seen["local"]) == ("none", "none")


def test_taps_have_the_context_of_their_delivery_thread():
    look = Look()

    def remember(value):
        look(value)
        request.set("an earlier tap")

    for value in range(2):
        callout.tap(remember, value)
    callout.barrier_wait()
    assert [seen["request"] for seen in look.seen] == ["none", "an earlier tap"]
    assert all(seen["thread"] != threading.get_ident() for seen in look.seen)
    callout.tap(lambda v: request.set("none"), 0)
    callout.barrier_wait()


def test_a_context_can_be_passed_on():
    look = Look()
    context = contextvars.copy_context()
    callout.tap(lambda v: context.copy().run(look, v), 1.0)
    callout.barrier_wait()
    assert look.seen[0]["request"] == "caller"


@pytest.mark.devices(2)
def test_taps_see_global_but_no_thread_settings():
    look = Look()
    with jax.enable_x64(True), jax.default_device(jax.devices()[1]):
        callout.tap(look, 1.0)
        callout.barrier_wait()
    jax.config.update("jax_default_device", jax.devices()[1])
    try:
        callout.tap(look, 1.0)
        callout.barrier_wait()
    finally:
        jax.config.update("jax_default_device", None)
    assert [seen["x64"] for seen in look.seen] == [False, False]
    assert [seen["device"] for seen in look.seen] == [None, jax.devices()[1]]


def test_default_device_can_be_set_inside_a_callback():
    used = []

    def on_last(value):
        with jax.default_device(jax.devices()[-1]):
            used.append(jnp.sum(jnp.asarray(value)).devices())

    callout.tap(on_last, np.ones(3, np.float32))
    callout.barrier_wait()
    assert used == [{jax.devices()[-1]}]


@pytest.mark.collectives
@pytest.mark.parametrize("numpy_only", [False, True])
def test_jax_arguments_keep_64_bits_on_any_thread(numpy_only):
    got = []

    def look(value):
        got.append(jnp.add(value, value).dtype)
        return value

    chosen = callout.options(look, args="jax", numpy_only=numpy_only)
    with jax.enable_x64(True):
        wide = jax.ShapeDtypeStruct((2,), jnp.float64)
        x = jax.device_put(spread().astype(jnp.float64), spread().sharding)
        y = jax.jit(lambda v: callout.pure_callback(chosen, wide, v))(x)
        callout.tap(chosen, np.float64(1))
        callout.barrier_wait()
    assert y.tolist() == [0, 1]
    assert got == [jnp.float64, jnp.float64]


def told(value):
    """Returns its argument, and moves no arrays."""
    return value


EAGER = {
    "pure": lambda x: callout.pure_callback(told, x, x),
    "io": lambda x: callout.io_callback(told, x, x),
    "ordered io": lambda x: callout.io_callback(told, x, x, ordered=True),
    "jax arguments": lambda x: callout.pure_callback(callout.options(told, args="jax"), x, x),
    "a number": lambda x: callout.io_callback(told, F32, 3.0),
    "debug": lambda x: callout.debug_callback(lambda *_: None, x, 2.0, ordered=True),
    "vmap": lambda x: jax.vmap(lambda v: callout.pure_callback(told, v, v, vmap_method="expand_dims"))(x),
    "tap": lambda x: callout.tap(told, {"a": x, "b": 1.0}, step=3),
    "ordered tap": lambda x: callout.tap(callout.options(told, args="jax"), x, ordered=True),
    "check": lambda x: callout.error_if(x, x < x, "{v}", v=3.0),
    "check with NaN": lambda x: callout.error_if(x, x < x, "no", on_error="nan"),
    "watch": lambda x: callout.watch({"a": x, "b": 1.0}, "x"),
    "threaded": callout.threaded(lambda x: callout.pure_callback(told, x, callout.tap(told, x))),
    "locate_nans": callout.locate_nans(lambda x: jnp.sin(x)),
    "host_callback.call": lambda x: callout.host_callback.call(told, x, result_shape=x),
    "host_callback.id_tap": lambda x: callout.host_callback.id_tap(lambda v, _: None, {"a": x, "b": 1.0}),
}


@pytest.mark.parametrize("level", ["disallow", "disallow_explicit"])
@pytest.mark.parametrize("call", EAGER.values(), ids=EAGER)
def test_eager_callbacks_are_no_transfers(call, level):
    x = jnp.ones(3)
    jax.config.update("jax_transfer_guard", level)  # update applies to delivery threads, too
    try:
        out = call(x)
        callout.barrier_wait()
    finally:
        jax.config.update("jax_transfer_guard", "allow")
    assert all(np.shape(leaf) in ((3,), ()) for leaf in jax.tree.leaves(out))


@pytest.mark.collectives
@pytest.mark.devices(2)
def test_eager_results_on_several_devices_are_no_transfers():
    x = jax.device_put(spread(), spread().sharding)
    with jax.transfer_guard("disallow_explicit"):
        out = callout.pure_callback(told, x, x)
        callout.tap(told, x, sharding="local")
    assert out.tolist() == [0, 1]
    callout.barrier_wait()


@pytest.mark.cpu_only("a GPU's callbacks run on threads of their own")
def test_transfers_of_a_callback_are_guarded_as_its_callers_are():
    like = jnp.float32(0)
    with jax.transfer_guard("disallow"), pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device"):
        callout.pure_callback(lambda v: jnp.asarray(v), like, like)


def test_disable_jit_makes_calls_eager():
    look = Look()
    with jax.disable_jit():
        jax.jit(lambda x: callout.pure_callback(look, F32, x))(jnp.float32(1))
    assert look.seen[0]["thread"] == threading.get_ident()


def test_a_tap_feeds_an_asyncio_queue():
    async def main():
        loop = asyncio.get_running_loop()
        queue = asyncio.Queue()

        def send(value):
            loop.call_soon_threadsafe(queue.put_nowait, int(value))

        f = jax.jit(lambda: jax.lax.fori_loop(0, 20, lambda i, c: callout.tap(send, i) * 0 + c, 0))
        await asyncio.to_thread(lambda: f().block_until_ready())
        await asyncio.to_thread(callout.barrier_wait)
        return [await queue.get() for _ in range(20)]

    assert asyncio.run(main()) == list(range(20))


def test_to_thread_takes_the_context_to_calls_in_that_thread():
    async def main():
        request.set("task")
        look = Look()
        await asyncio.to_thread(callout.pure_callback, look, F32, 1.0)
        return look.seen[0]

    seen = asyncio.run(main())
    assert seen["request"] == "task"
    assert seen["thread"] != threading.get_ident()


def test_a_tap_to_a_closed_event_loop_fails():
    async def main():
        return asyncio.get_running_loop()

    closed = asyncio.run(main())
    callout.tap(lambda v: closed.call_soon_threadsafe(print, v), 1.0)
    with pytest.raises(callout.TapError, match="Event loop is closed"):
        callout.barrier_wait()
