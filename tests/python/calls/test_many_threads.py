# SPDX-License-Identifier: Apache-2.0
"""Tests threads that use shared state at the same time: few do with a GIL, all do without one."""

import functools
import sys
import sysconfig
import threading
from collections import Counter

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._base import errors
from switching import switching_after

THREADS = 8
ROUNDS = 25


@pytest.fixture(autouse=True)
def switching_often():
    with switching_after(1e-6):
        yield


def at_once(function, threads=THREADS):
    """Runs function(number of the thread) in many threads that start together; raises the error of one that fails."""
    start, failures = threading.Barrier(threads), []

    def run(number):
        try:
            start.wait()
            function(number)
        except BaseException as error:  # noqa: BLE001 - raised again
            failures.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failures:
        raise failures[0]


def test_importing_does_not_turn_the_gil_on():
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert getattr(sys, "_is_gil_enabled", lambda: True)() == (not free_threaded)


def test_first_calls_of_a_jitted_function_may_be_concurrent():
    for _ in range(ROUNDS):

        @jax.jit
        def program(x):
            return callout.pure_callback(lambda x: x + np.float32(1), jax.ShapeDtypeStruct((), jnp.float32), x)

        answers = [None] * THREADS

        def call(number, program=program, answers=answers):
            answers[number] = [float(program(jnp.float32(number + i))) for i in range(3)]

        at_once(call)
        assert answers == [[number + i + 1 for i in range(3)] for number in range(THREADS)]


def test_each_thread_sees_its_own_exception():
    class OwnError(Exception):
        pass

    def fail(number):
        raise OwnError(f"thread {int(number)}")

    program = jax.jit(lambda n: callout.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.int32), n))

    def call(number):
        for _ in range(ROUNDS):
            with pytest.raises(OwnError, match=rf"thread {number}\n"):
                program(np.int32(number)).block_until_ready()

    at_once(call)


@pytest.mark.parametrize("fallback", ["auto", "always"])
def test_taps_of_many_threads_arrive_once_each(fallback, request):
    request.addfinalizer(functools.partial(callout.config.update, "fallback", callout.config.fallback))
    callout.config.fallback = fallback
    received = []
    program = jax.jit(lambda n: callout.tap(received.append, n))

    def tap(number):
        for i in range(ROUNDS):
            program(np.int32(number * ROUNDS + i))
            callout.tap(received.append, np.int32(-1 - number * ROUNDS - i))

    at_once(tap)
    callout.barrier_wait()
    total = THREADS * ROUNDS
    assert Counter(int(value) for value in received) == Counter(range(-total, total))


@pytest.mark.native_only(platforms.BUFFERS)
def test_threads_may_use_a_buffer_while_its_call_ends():
    over = []

    def use(buffer, shared):
        try:
            while True:
                assert buffer.shape == (1000,)
                assert buffer.nbytes == 4000
                assert len(buffer) == 1000
                shared.set()
        except ValueError as error:
            over.append(str(error))

    def callback(ctx, out, x):
        if not platforms.ON_CUDA:  # NumPy cannot read a GPU's memory, and this test does not need the values
            np.asarray(out)[:] = np.asarray(x) * 2
        for buffer in (x, out):
            shared = threading.Event()
            users.append(threading.Thread(target=use, args=(buffer, shared)))
            users[-1].start()
            shared.wait()

    users = []
    double = callout.buffer_callback.buffer_callback(callback, jax.ShapeDtypeStruct((1000,), jnp.float32))
    for _ in range(ROUNDS):
        doubled = jax.block_until_ready(jax.jit(double)(jnp.ones(1000)))
        if not platforms.ON_CUDA:
            np.testing.assert_array_equal(doubled, np.full(1000, 2, np.float32))
    for user in users:
        user.join()
    assert len(over) == 2 * ROUNDS
    assert all("a call that is over" in text for text in over)


def test_files_are_closed_by_path_from_many_threads(tmp_path):
    for i in range(ROUNDS):
        path = tmp_path / f"{i}.jsonl"
        sink = callout.sinks.JsonLines(path)
        callout.tap(sink, np.float32(i))
        callout.barrier_wait()
        closed = []
        at_once(lambda _, path=path, closed=closed: closed.append(callout.sinks.close(path)))
        assert path.read_text().count("\n") == 1
        assert sum(closed) == 1
        del sink


def test_profiles_start_and_end_while_callbacks_run():
    program = jax.jit(lambda x: callout.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), jnp.float32), x))
    program(0.0)
    done, calls = threading.Event(), []

    def run(number):
        if number:
            while not done.is_set():
                assert float(program(np.float32(number))) == number
            return
        try:
            for _ in range(5):
                with callout.profile() as profile:
                    assert float(program(0.0)) == 0
                calls.append(sum(event["kind"] == "call" for event in profile.events))
        finally:
            done.set()

    at_once(run, threads=4)
    assert len(calls) == 5
    assert min(calls) >= 1


# CPython before 3.14 cannot finish a tuple of a generator while something else refers to the tuple, such as
# gc.get_objects().
@pytest.mark.slow
def test_the_search_for_jitted_functions_holds_no_unfinished_tuples():
    found = threading.Event()

    def work(number):
        if number == 0:
            try:
                for _ in range(4 * ROUNDS):
                    errors.hooked()  # called by the first program with a callback
            finally:
                found.set()
        while not found.is_set():
            assert len(tuple(i for i in range(100))) == 100

    at_once(work, threads=4)


@pytest.mark.cpu_only("a GPU runs the programs of its stream one after another")
def test_callbacks_that_wait_for_each_other_all_run_at_once():
    all_inside = threading.Barrier(THREADS)

    def meet(x):
        all_inside.wait(timeout=100)  # no callback passes before all have entered
        return x + np.float32(1)

    @jax.jit
    def program(x):
        y = x @ x  # makes the program large enough for XLA's own threads
        return callout.pure_callback(meet, jax.ShapeDtypeStruct(y.shape, y.dtype), y)

    x = jnp.ones((128, 128), jnp.float32)
    compiled = program.lower(x).compile()
    at_once(lambda number: np.testing.assert_array_equal(compiled(x), np.full((128, 128), 129, np.float32)))
