# SPDX-License-Identifier: Apache-2.0
"""Tests that a callback lives exactly as long as something can call it."""

import gc
import re
import threading
import weakref

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import live_objects
import numpy as np
import platforms
import pytest
from live_objects import holders, live_counts, settle, wait_until_gone

F32 = jax.ShapeDtypeStruct((), jnp.float32)


class Callback:
    """A callable with weak references."""

    def __call__(self, x):
        return x


def make_call():
    callback = Callback()
    return jax.jit(lambda x: callout.pure_callback(callback, F32, x) + 1), weakref.ref(callback)


def test_a_callback_dies_with_its_function():
    f, callback = make_call()
    assert float(f(1.0)) == 2
    del f
    assert wait_until_gone(callback)


def test_a_callback_lives_while_its_function_does():
    f, callback = make_call()
    f(1.0)
    jax.clear_caches()
    gc.collect()
    assert callback() is not None
    assert float(f(2.0)) == 3


def test_lower_then_compile_twice():
    f, callback = make_call()
    lowered = f.lower(jnp.float32(1))
    del f
    jax.clear_caches()
    gc.collect()
    compiled = [lowered.compile() for _ in range(2)]
    del lowered
    gc.collect()
    assert [float(c(jnp.float32(1))) for c in compiled] == [2, 2]
    assert callback() is not None
    del compiled
    settle(gone=callback)
    assert callback() is None


def test_lowered_never_compiled():
    f, callback = make_call()
    lowered = f.lower(jnp.float32(1))
    del f, lowered
    settle(gone=callback)
    assert callback() is None


@pytest.mark.devices(4)
def test_one_function_on_four_devices():
    f, callback = make_call()
    for device in jax.devices()[:4]:
        assert float(f(jax.device_put(jnp.float32(1), device))) == 2
    del f
    settle(gone=callback)
    assert callback() is None


def test_cache_eviction():
    f, callback = make_call()
    f(1.0)
    f.clear_cache()
    gc.collect()
    assert float(f(1.0)) == 2
    del f
    settle(gone=callback)
    assert callback() is None


def rounds(n):
    for i in range(n):
        seen = []
        f = jax.jit(lambda x: callout.tap(seen.append, callout.pure_callback(Callback(), F32, x)) + 1)  # noqa: B023
        assert float(f(1.0)) == 2
        callout.barrier_wait()
        assert seen == [1]
        del f
        if i % 50 == 49:
            gc.collect()


def test_rounds_of_define_run_delete_leave_counts_flat():
    before = settle()
    rounds(40)
    assert settle(before) == before


def test_settling_waits_for_objects_that_xla_holds_longer(monkeypatch):
    before, more = settle(), iter([1] * 7)
    monkeypatch.setattr(live_objects, "live_counts", lambda: {**before, "sites": before["sites"] + next(more, 0)})
    assert settle(before) == before
    assert next(more, None) is None


def test_unsettled_objects_are_named_with_their_holders():
    def kept_by_a_test(x):
        return x

    before = live_counts()
    lowered = jax.jit(lambda x: callout.pure_callback(kept_by_a_test, F32, x)).lower(jnp.float32(1))
    assert settle(before, seconds=0) != before
    (held,) = (types for label, types in holders().items() if label.endswith("kept_by_a_test"))
    assert held
    del lowered


@pytest.mark.soak
def test_10000_rounds_of_define_run_delete_leave_memory_flat():
    import resource

    rounds(1000)
    before, start = settle(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds(9000)
    assert settle(before) == before
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    assert growth < 100 * 1024, f"peak memory grew by {growth} KB over 9000 rounds"


def test_records_outlive_their_program():
    release, inside, got = threading.Event(), threading.Event(), []

    def receive(value):
        inside.set()
        assert release.wait(30)
        got.append(float(value))

    f = jax.jit(lambda x: callout.tap(receive, x))
    for i in range(3):
        f(float(i))
    assert inside.wait(30)
    del f
    settle_caches()
    release.set()
    callout.barrier_wait()
    assert got == [0, 1, 2]


def settle_caches():
    jax.clear_caches()
    gc.collect()


@pytest.mark.native_only(platforms.TEXT)
def test_names_of_functions_are_stable_and_distinct():
    def define():
        def callback(x):
            return x

        return callback

    first, second = define(), define()

    def name(fn):
        text = jax.jit(lambda x: callout.pure_callback(fn, F32, x)).lower(1.0).as_text()
        return text.split('callback = "')[1].split('"')[0]

    one = jax.jit(lambda x: callout.pure_callback(first, F32, x)).lower(1.0)
    assert name(first) in one.as_text()
    assert name(second) == name(first) + "#1"
    assert name(first).startswith("py:test_lifetime.test_names_of_functions_are_stable_and_distinct")


def test_short_lived_threads_leave_nothing():
    f = jax.jit(lambda x: callout.pure_callback(Callback(), F32, x))
    f(1.0)
    for _ in range(20):
        thread = threading.Thread(target=lambda: f(1.0))
        thread.start()
        thread.join()


@pytest.mark.native_only(platforms.TEXT)
def test_a_function_keeps_its_name_when_its_program_is_retraced(received):
    """The compilation cache uses the name, even while the previous program's executable is still being destroyed."""

    def name(send):
        f = jax.jit(lambda x: send(x) + 1)
        program = f.lower(1.0).as_text()
        f(1.0)
        return re.search(r'callback = "(py:[^"]*)"', program)[1]

    def call(x):
        return callout.pure_callback(np.sin, jax.ShapeDtypeStruct((), "float32"), x)

    for send in (lambda x: callout.tap(received.tap, x), lambda x: callout.tap(received.tap, x, ordered=True), call):
        names = {name(send) for _ in range(15)}
        assert len(names) == 1, names
        assert "#" not in names.pop()


def refused(call, captured):
    """Traces a program that raises; returns a weak reference to its callback, which nothing else refers to."""
    callback = Callback()

    def program(x):
        y = call(callback, x)
        raise LookupError(y + captured)

    with pytest.raises(LookupError):
        jax.jit(program)(jnp.float32(1))
    return weakref.ref(callback)


REFUSED = {
    "pure": lambda f, x: callout.pure_callback(f, F32, x),
    "tap": lambda f, x: callout.tap(f, x),
    "print": lambda f, x: hcb.id_print(x, of=f),
    "jax": lambda f, x: jax.pure_callback(f, F32, x),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_program_keeps_nothing(kind):
    assert wait_until_gone(refused(REFUSED[kind], np.float32(1)))


@pytest.mark.parametrize("kind", REFUSED)
def test_jax_keeps_a_refused_program_with_a_captured_array(kind):
    """JAX's own callbacks are kept, too. If this test fails with a new JAX, docs/threads.md need not mention it."""
    callback = refused(REFUSED[kind], np.ones(3, np.float32))
    settle()
    assert callback() is not None
    for each in list(weakref.finalize._registry):  # only JAX's registry of finalizers keeps the callback
        if "finalize_const" in repr(each.peek()):
            each.detach()
    assert wait_until_gone(callback)


class Trainer:
    """Holds a program whose callback is its own method, as in docs/threads.md."""

    def __init__(self, call, weakly):
        self.seen = []
        note = weakref.WeakMethod(self.note)

        def record(value):
            if (method := note()) is not None:
                method(value)
            return value

        self.record = record if weakly else self.note
        self.call = call
        self.step = jax.jit(self.run)

    def run(self, x):
        return self.call(self.record, x)

    def note(self, value):
        self.seen.append(float(value))
        return value


@pytest.mark.parametrize(
    "call",
    [
        lambda fn, x: callout.tap(fn, x),
        lambda fn, x: callout.pure_callback(fn, F32, x),
        lambda fn, x: callout.io_callback(fn, F32, x, ordered=True),
        lambda fn, x: (callout.debug_callback(fn, x), x)[1],
    ],
    ids=["tap", "pure", "ordered io", "debug"],
)
@pytest.mark.parametrize("weakly", [True, False], ids=["weakly", "strongly"])
def test_an_object_with_a_weak_callback_dies_with_its_program(call, weakly):
    trainer = Trainer(call, weakly)
    for value in (1.0, 2.0):
        trainer.step(jnp.float32(value)).block_until_ready()
    callout.barrier_wait()
    assert trainer.seen == [1, 2]
    gone = weakref.ref(trainer)
    del trainer
    if not weakly:
        gc.collect()
        assert gone() is not None
        del gone().step  # breaks the reference cycle
    assert wait_until_gone(gone)
