# SPDX-License-Identifier: Apache-2.0
"""Tests that a callback's exception arrives as itself: on first and later calls, inline and asynchronously."""

import copy
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from platforms import ON_CUDA, SYNCHRONOUS, awaited

F32 = jax.ShapeDtypeStruct((), jnp.float32)


class MyError(Exception):
    def __init__(self, message, payload=None):
        super().__init__(message)
        self.payload = payload


class SlotError(OSError):
    """A class whose layout cannot be combined with JaxRuntimeError's."""


class Failing:
    """A callback that succeeds twice and then raises."""

    def __init__(self, error):
        self.calls = 0
        self.error = error

    def __call__(self, x):
        self.calls += 1
        if self.calls > 2:
            raise self.error
        return x


ERRORS = [
    MyError("mine", payload={"k": 1}),
    KeyError("key"),
    SlotError(2, "slot"),
    AttributeError("attribute"),
    StopIteration(3),
    ExceptionGroup("group", [ValueError("inner")]),
    UnicodeDecodeError("utf8", b"x", 0, 1, "bad"),
    ValueError("value"),
]


@pytest.fixture(autouse=True)
def without_frames(nothing_left_behind):
    """Clears the tracebacks of errors that outlive a test: their frames lead to JAX's, which hold the program."""
    yield
    for error in ERRORS:
        error.__traceback__ = None


def inline(callback, jit=jax.jit):
    """Returns a program that runs in its caller's thread, and its argument."""
    return jit(lambda x: callout.pure_callback(callback, F32, x)), jnp.float32(1)


def asynchronous(callback, jit=jax.jit):
    """Returns a program that is dispatched before its inputs are ready, and its argument."""
    callback = callout.options(callback, numpy_only=True)
    f = jit(lambda m: callout.pure_callback(callback, F32, lax.fori_loop(0, 20, lambda i, c: jnp.tanh(c @ c), m).sum()))
    return f, jnp.ones((8, 8) if ON_CUDA else (200, 200))


@pytest.mark.parametrize("make", [inline, asynchronous])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_reraise_gives_the_exception_itself_after_two_successes(make, error):
    f, x = make(Failing(error))
    for _ in range(2):
        f(x).block_until_ready()
    for _ in range(2):
        with pytest.raises(type(error)) as info, callout.reraise():
            f(x).block_until_ready()
        assert info.value is error
        assert callout.last_error() is error


@pytest.mark.parametrize("make", [inline, asynchronous])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_callout_jit_gives_the_exception_itself(make, error):
    f, x = make(Failing(error), callout.jit)
    for _ in range(2):
        f(x)
    for _ in range(2):
        with pytest.raises(type(error)) as info:
            f(x)
        assert info.value is error


def test_a_callout_jit_function_copies_as_itself():
    f = callout.jit(lambda x: x + 1)
    assert copy.copy(f) is f
    assert copy.deepcopy({"f": f})["f"] is f
    with pytest.raises(AttributeError, match="_jitted"):
        object.__new__(type(f)).lower  # noqa: B018 - half-made, as copies are for a while


def test_reraise_as_a_decorator_and_nested():
    error = MyError("mine")
    f, x = inline(Failing(error))

    @callout.reraise()
    def run():
        with callout.reraise():
            return awaited(f(x))

    run()
    run()
    with pytest.raises(MyError) as info:
        run()
    assert info.value is error


def test_the_original_keeps_its_own_chain():
    def callback(x):
        try:
            raise KeyError("cause")
        except KeyError as e:
            raise MyError("mine") from e

    f, x = inline(callback)
    with pytest.raises(MyError) as info, callout.reraise():
        awaited(f(x))
    assert isinstance(info.value.__cause__, KeyError)
    assert info.value.__traceback__ is not None
    names = [entry.name for entry in info.traceback]
    assert "callback" in names


def test_without_reraise_the_stated_behaviour():
    error = MyError("mine", payload=7)
    f, x = inline(Failing(error))
    f(x)
    f(x)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError)) as info:  # JAX's C++ fast path raises ValueError
        awaited(f(x))
    assert "callback 'test_errors.Failing' failed on device 0: MyError: mine" in str(info.value)
    assert "Traceback (most recent call last)" in str(info.value)
    assert "raise self.error" in str(info.value)

    g, x = asynchronous(Failing(error))
    g(x).block_until_ready()
    g(x).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError) as info:
        g(x).block_until_ready()
    assert info.value.__cause__ is error
    assert isinstance(info.value, MyError)
    assert info.value.payload == 7


def test_incompatible_layouts_are_chained_only():
    error = SlotError(2, "slot")
    f, x = asynchronous(Failing(error))
    f(x).block_until_ready()
    f(x).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError) as info:
        f(x).block_until_ready()
    assert info.value.__cause__ is error
    assert not isinstance(info.value, OSError)


@pytest.mark.native_only(SYNCHRONOUS)
def test_chaining_can_be_switched_off():
    callout.config.chain_errors = False
    try:
        assert not hasattr(jax.errors.JaxRuntimeError.__init__, "callout_original")
        f, x = asynchronous(Failing(MyError("mine")))
        f(x).block_until_ready()
        f(x).block_until_ready()
        with pytest.raises(jax.errors.JaxRuntimeError) as info:
            f(x).block_until_ready()
        assert type(info.value) is jax.errors.JaxRuntimeError
        with pytest.raises(MyError), callout.reraise():
            f(x).block_until_ready()
    finally:
        callout.config.chain_errors = True
    installed = jax.errors.JaxRuntimeError.__init__
    callout.config.chain_errors = True  # installing twice adds no second wrapper
    assert jax.errors.JaxRuntimeError.__init__ is installed
    assert not hasattr(installed.callout_original, "callout_original")


def test_the_next_computation_works():
    f, x = inline(Failing(MyError("mine")))
    ok, _ = inline(lambda v: v + np.float32(1))
    f(x)
    f(x)
    for _ in range(3):
        with pytest.raises(Exception, match="mine"):
            awaited(f(x))
        assert float(ok(x)) == 2
        assert float(jax.jit(lambda v: v * 3)(x)) == 3


def test_eager_raises_directly():
    error = MyError("mine")

    def callback(x):
        raise error

    with pytest.raises(MyError) as info:
        callout.pure_callback(callback, F32, 1.0)
    assert info.value is error


def test_keyboard_interrupt_passes_reraise():
    f, x = inline(Failing(KeyboardInterrupt()))
    f(x)
    f(x)
    with pytest.raises(KeyboardInterrupt), callout.reraise():
        awaited(f(x))


def test_errors_from_other_threads():
    error = MyError("mine")
    f, x = inline(Failing(error))
    f(x)
    f(x)
    seen = []

    def run():
        try:
            with callout.reraise():
                awaited(f(x))
        except MyError as e:
            seen.append(e)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [error] * 4


def test_unrelated_errors_pass_through_reraise_unchanged():
    error = ValueError("nothing to do with callbacks")
    with pytest.raises(ValueError, match="nothing to do") as info, callout.reraise():
        raise error
    assert info.value is error


class BatchError(jax.errors.JaxRuntimeError):
    pass


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("kind", [ValueError, RuntimeError, jax.errors.JaxRuntimeError, BatchError])
def test_a_longer_error_than_its_cause_passes_reraise(kind, chained):
    error = MyError("mine")
    f, x = inline(Failing(error))
    f(x)
    f(x)

    @callout.reraise()
    def run():
        try:
            awaited(f(x))
        except (jax.errors.JaxRuntimeError, ValueError) as raised:
            raise kind(f"bad batch 7: {raised}") from raised

    callout.config.chain_errors = chained
    try:
        with pytest.raises(kind, match="bad batch 7: INTERNAL: ") as info:
            run()
    finally:
        callout.config.chain_errors = True
    assert isinstance(info.value, kind)
    assert info.value is not error


@pytest.mark.parametrize("begin", ["", "INTERNAL: "])
def test_a_value_error_of_python_passes_reraise(begin):
    from callout._base import errors

    error = ValueError(f"{begin}callout: {errors.keep(MyError('mine'))}")
    with pytest.raises(ValueError, match="callout: ") as info, callout.reraise():
        raise error
    assert info.value is error
    with pytest.raises(ValueError, match="invalid literal") as info, callout.reraise():
        int("callout: hello")
    assert type(info.value) is ValueError


@pytest.mark.parametrize("kind", ["pure", "io", "debug"])
def test_a_failing_call_raises_and_logs_nothing_above_debug(caplog, kind):
    def fail(x):
        raise MyError("meant")

    calls = {
        "pure": lambda x: callout.pure_callback(fail, x, x),
        "io": lambda x: callout.io_callback(fail, x, x),
        "debug": lambda x: callout.debug_callback(fail, x),
    }
    f = jax.jit(calls[kind])

    def run():
        jax.block_until_ready(f(jnp.float32(1)))
        jax.effects_barrier()

    with caplog.at_level(logging.INFO, logger="callout"):
        for _ in range(2):
            with pytest.raises(MyError, match="meant"):
                run()
    assert [record.getMessage() for record in caplog.records] == []


def test_few_exceptions_are_kept():
    f, x = inline(Failing(MyError("mine")))
    from callout._base import errors

    f(x)
    f(x)
    for _ in range(200):
        with pytest.raises(Exception, match="mine"):
            awaited(f(x))
    assert len(errors._kept) <= 64


def test_other_threads_do_not_displace_an_exception_in_flight():
    from callout._base import errors

    mine = errors.keep(MyError("mine"))
    texts = []

    def fail():
        texts.append([errors.keep(MyError(str(i))) for i in range(200)])

    for _ in range(30):
        thread = threading.Thread(target=fail)  # Python reuses the identifiers of ended threads
        thread.start()
        thread.join()
    assert str(errors.original(mine)) == "mine"
    assert [str(errors.original(text)) for text in texts[-1][-64:]] == [str(i) for i in range(136, 200)]
    assert errors.original(texts[-1][0]) is None

    arrived = threading.Barrier(20)

    def fail_beside_others():
        fail()
        arrived.wait(60)

    threads = [threading.Thread(target=fail_beside_others) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1024 - 20 <= len(errors._kept) <= 1024, "threads that make room at once may make more than is needed"
    assert errors.original(mine) is None


def test_vmap_errors_use_public_names():
    def named(x):
        return x

    with pytest.raises(
        NotImplementedError, match=r"callout.pure_callback '.*named': vmap needs a vmap_method, one of "
    ):
        jax.vmap(lambda x: callout.pure_callback(named, F32, x))(jnp.zeros(2))


def test_frames_of_callout_are_filtered_as_those_of_jax_are():
    package = str(Path(callout.__file__).parent)
    script = "import jax, callout\njax.jit(lambda x: callout.tap(lambda v: v, {'a': 'text'}))(1.0)\n"
    for mode, shown in (("remove_frames", False), ("off", True)):
        environment = {**os.environ, "JAX_TRACEBACK_FILTERING": mode}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
        )
        last = done.stderr.split("Traceback (most recent call last)")[-1]
        assert "must be a pytree of arrays" in last
        assert (package in last) == shown
