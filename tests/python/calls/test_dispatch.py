# SPDX-License-Identifier: Apache-2.0
"""Tests that programs with numpy_only callbacks are dispatched asynchronously on a CPU, however small they are."""

import threading

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

F32 = jax.ShapeDtypeStruct((), jnp.float32)
pytestmark = pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches, numpy_only or not")


class Waiting:
    """A callback that ends only after an event that follows the dispatch of its program."""

    def __init__(self):
        self.released, self.values = threading.Event(), []

    def __call__(self, *values):
        assert self.released.wait(20), "the program ran before its dispatch returned"
        self.values.append(values)
        return values[0] if values else np.float32(0)

    def in_buffers(self, _context, _out, _value):
        self()


@pytest.fixture
def waiting():
    waiting = Waiting()
    yield waiting
    waiting.released.set()


def call(callback, x):
    return callout.pure_callback(callback, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def over_one_device(callback):
    mesh = jax.make_mesh((1,), ("d",), devices=jax.devices()[:1])
    return jax.shard_map(
        lambda x: call(callback, x), mesh=mesh, in_specs=jax.P(None), out_specs=jax.P(None), check_vma=False
    )


SCALAR, VECTOR = np.float32(1), np.ones(4, np.float32)
# (makes a program from the callback, the program's arguments)
PROGRAMS = {
    "scalar": (lambda f: lambda x: call(f, x), SCALAR),
    "4 MB": (lambda f: lambda x: call(f, x), np.ones(1_000_000, np.float32)),
    "no argument": (lambda f: lambda: callout.pure_callback(f, F32),),
    "loop": (lambda f: lambda x: lax.fori_loop(0, 3, lambda _, c: call(f, c), x), SCALAR),
    "while": (lambda f: lambda x: lax.while_loop(lambda c: c < 4, lambda c: call(f, c) + 1, x), SCALAR),
    "scan": (lambda f: lambda x: lax.scan(lambda c, y: (call(f, c + y), c), 0 * x[0], x), VECTOR),
    "branch": (lambda f: lambda x: lax.cond(x > 0, lambda v: call(f, v), lambda v: v, x), SCALAR),
    "jit in a loop": (
        lambda f: lambda x: lax.fori_loop(0, 2, lambda _, c: jax.jit(lambda v: call(f, v))(c), x),
        SCALAR,
    ),
    "vmap": (lambda f: jax.vmap(lambda x: callout.pure_callback(f, F32, x, vmap_method="sequential")), VECTOR),
    "io": (lambda f: lambda x: callout.io_callback(f, F32, x), SCALAR),
    "ordered io": (lambda f: lambda x: callout.io_callback(f, F32, x, ordered=True), SCALAR),
    "io without a result": (lambda f: lambda x: callout.io_callback(lambda_of(f), None, x), SCALAR),
    "debug": (lambda f: lambda x: callout.debug_callback(f, x), SCALAR),
    "threaded": (lambda f: callout.threaded(lambda x: callout.io_callback(f, F32, x)), SCALAR),
    "gradient": (lambda f: jax.grad(lambda x: x * lax.stop_gradient(call(f, lax.stop_gradient(x)))), SCALAR),
    "shard_map over one device": (over_one_device, VECTOR),
}


def lambda_of(callback):
    """Returns the callback without its result."""
    return callout.options(lambda *values: callback(*values) and None, numpy_only=True)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_returns_before_its_callback_runs(kind, waiting):
    make, *args = PROGRAMS[kind]
    f = jax.jit(make(callout.options(waiting, numpy_only=True)))
    args = jax.block_until_ready([jax.device_put(arg) for arg in args])
    for _ in range(3):  # JAX's fast path begins with the third call
        waiting.released.clear()
        out = f(*args)
        assert not waiting.values
        waiting.released.set()
        jax.block_until_ready(out)
        callout.barrier_wait()
        jax.effects_barrier()
        assert waiting.values
        waiting.values.clear()


def test_programs_of_buffer_callbacks_return_before_they_run(waiting):
    callback = callout.options(waiting.in_buffers, numpy_only=True)
    f = jax.jit(lambda x: callout.buffer_callback.buffer_callback(callback, F32)(x))
    out = f(jnp.float32(1))
    assert not waiting.values
    waiting.released.set()
    out.block_until_ready()
    assert waiting.values


def test_programs_over_devices_return_before_they_run(waiting):
    mesh = jax.make_mesh((4,), ("d",))
    x = jax.device_put(VECTOR, jax.sharding.NamedSharding(mesh, jax.P("d")))
    f = jax.jit(lambda x: call(callout.options(waiting, numpy_only=True), x))
    out = f(x)
    waiting.released.set()
    np.testing.assert_array_equal(out, VECTOR)


def test_programs_of_one_thread_keep_their_order(waiting):
    seen = []
    callback = callout.options(lambda v: waiting(v) and seen.append(v), numpy_only=True)
    f = jax.jit(lambda x: callout.io_callback(callback, None, x))
    g = jax.jit(lambda x: callout.io_callback(lambda v: seen.append(-v), None, x))
    for i in range(1, 8):
        f(np.float32(i))
    waiting.released.set()
    g(np.float32(8))  # another program, which waits for the earlier ones
    callout.barrier_wait()
    assert seen == [1, 2, 3, 4, 5, 6, 7, -8]


def test_errors_are_raised_at_the_wait_for_the_result():
    def fail(_):
        raise KeyError("meant")

    f = jax.jit(lambda x: call(callout.options(fail, numpy_only=True), x))
    for _ in range(4):
        out = f(SCALAR)
        with pytest.raises(KeyError, match="meant"), callout.reraise():
            out.block_until_ready()


def test_other_callbacks_run_in_the_dispatching_thread(capfd):
    threads = []
    note = lambda v: threads.append(threading.get_ident()) or v  # noqa: E731
    jax.jit(lambda x: call(note, x))(SCALAR)
    assert threads == [threading.get_ident()]
    jax.jit(lambda x: callout.debug_print("seen {}", x))(SCALAR)
    assert capfd.readouterr().out == "seen 1.0\n"


THREAD_OF = """
#include <unistd.h>

#include "callout/kernel.h"

void thread_of(callout::In<float>, callout::Out<int32_t> thread) { thread.data()[0] = gettid(); }
CALLOUT_KERNEL(thread_of);
"""


def test_native_functions_run_in_the_dispatching_thread():
    thread_of = callout.cpp.load_inline(
        THREAD_OF, {"thread_of": {"out": jax.ShapeDtypeStruct((), jnp.int32)}}
    ).thread_of
    program = jax.jit(thread_of)
    assert "callout_asynchronous" not in program.lower(SCALAR).as_text()
    program(SCALAR)
    assert int(program(SCALAR)) == threading.get_native_id()


def text_of(function, *args):
    return jax.jit(function).lower(*args).as_text()


def test_the_branch_occurs_once_and_outside_of_loops():
    quick = callout.options(lambda v: v, numpy_only=True)

    def f(x):
        return lax.fori_loop(0, 3, lambda _, c: call(quick, call(quick, c)), call(quick, x))

    text = text_of(f, SCALAR)
    assert text.count(" call @callout_asynchronous") == text.count("func private @callout_asynchronous") == 1
    assert text.index("@main") < text.index(" call @callout_asynchronous") < text.index("stablehlo.while")
    analysis = jax.jit(f).lower(SCALAR).compile().cost_analysis()
    # XLA runs programs of fewer than 1000 operations in the calling thread, and subtracts 1 for each call of a program.
    assert analysis["flops"] > 300_000


def test_programs_that_need_no_branch_have_none():
    quick = callout.options(lambda v: v, numpy_only=True)
    x = jax.device_put(VECTOR, jax.sharding.NamedSharding(jax.make_mesh((4,), ("d",)), jax.P("d")))
    callout.register("dispatch.quick", quick)
    try:
        exported = callout.export(jax.jit(lambda x: callout.pure_callback("dispatch.quick", F32, x)))(SCALAR)
    finally:
        callout.unregister("dispatch.quick")
    texts = [
        text_of(lambda x: call(lambda v: v, x), SCALAR),
        text_of(lambda x: callout.tap(quick, x), SCALAR),
        text_of(lambda x: callout.debug_print("{}", x), SCALAR),
        text_of(lambda x: call(quick, x), x),
        exported.mlir_module(),
    ]
    assert not any("callout_asynchronous" in text for text in texts)
