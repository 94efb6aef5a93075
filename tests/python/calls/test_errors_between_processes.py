# SPDX-License-Identifier: Apache-2.0
"""Tests that errors of callbacks can be copied and pickled for other processes, for any exception class of the user."""

import concurrent.futures
import copy
import multiprocessing
import pickle
import threading

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from platforms import awaited

F32 = jax.ShapeDtypeStruct((), jnp.float32)


class MyError(Exception):
    def __init__(self, message, payload=None):
        super().__init__(message)
        self.payload = payload


class TwoWordsError(Exception):
    """An exception class that Python's own pickle cannot restore."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")
        self.second = second


class OwnPickleError(Exception):
    def __reduce__(self):
        raise TypeError("has a way of its own")


ERRORS = [
    ValueError("value"),
    KeyError("key"),
    MyError("mine", payload={"k": np.arange(3)}),
    TwoWordsError("two", "words"),
    OwnPickleError("own"),
    callout.CheckError("checked"),
    LookupError("looked up"),
]


def name_of(error):
    return type(error).__name__


def from_program(error):
    """Returns the error of a compiled call whose callback raises `error`."""

    def fail(x):
        raise error

    with pytest.raises(jax.errors.JaxRuntimeError) as info:
        awaited(jax.jit(lambda x: callout.pure_callback(fail, F32, x))(1.0))
    error.__traceback__ = None  # JAX's frames in the traceback would keep the program and its callback
    return info.value


def from_barrier(error):
    """Returns the barrier's error after taps that raised `error`."""

    def fail(value):
        raise error

    callout.tap(fail, 1.0)
    callout.tap(fail, 2.0)
    with pytest.raises(callout.TapError) as info:
        callout.barrier_wait()
    error.__traceback__ = None
    return info.value


def pickled(error):
    return pickle.loads(pickle.dumps(error))


WAYS = {"pickle": pickled, "copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", ERRORS, ids=name_of)
def test_a_programs_error_is_the_same_after_copying_and_pickling(error, way):
    raised = from_program(error)
    made = WAYS[way](raised)
    assert made is not raised
    assert isinstance(made, jax.errors.JaxRuntimeError)
    assert isinstance(made, type(error))
    assert type(made) is type(raised)
    assert str(made) == str(raised)
    assert type(made.__cause__) is type(error)
    assert str(made.__cause__) == str(error)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [*ERRORS, OSError(2, "no file")], ids=name_of)
def test_a_barriers_error_is_the_same_after_copying_and_pickling(error, way):
    raised = from_barrier(error)
    made = WAYS[way](raised)
    assert type(made) is type(raised)
    assert isinstance(made, callout.TapError)
    assert str(made) == str(raised)
    assert made.count == 2
    assert type(made.__cause__) is type(error)
    assert len(made.exceptions.exceptions) == 2
    assert str(made.exceptions.exceptions[0])


@pytest.mark.parametrize("way", WAYS)
def test_attributes_of_the_users_class_are_kept(way):
    made = WAYS[way](from_program(MyError("mine", payload={"k": np.arange(3)})))
    assert made.payload["k"].tolist() == [0, 1, 2]
    assert made.__cause__.payload["k"].tolist() == [0, 1, 2]


def test_only_unpicklable_attributes_are_dropped():
    class LocalError(KeyError):
        pass

    raised = from_program(LocalError("local"))
    raised.lock, raised.number = threading.Lock(), 7
    made = pickled(raised)
    assert isinstance(made, KeyError)
    assert isinstance(made, jax.errors.JaxRuntimeError)
    assert str(made) == str(raised)
    assert made.number == 7
    assert not hasattr(made, "lock")
    assert type(made.__cause__) is callout.CallbackError
    assert str(made.__cause__) == "LocalError: 'local'"
    assert type(copy.copy(raised)) is type(raised)
    assert copy.deepcopy(raised).lock is raised.lock

    made = pickled(from_barrier(LocalError("local")))
    assert isinstance(made, KeyError)
    assert [str(error) for error in made.exceptions.exceptions] == ["LocalError: 'local'"] * 2


def test_errors_that_hold_themselves_are_pickled():
    raised = from_program(MyError("mine"))
    raised.payload, raised.__cause__ = [raised], raised
    for way in WAYS.values():
        assert isinstance(way(raised), MyError)
    made = copy.deepcopy(raised)
    assert made.payload[0] is made


def test_callouts_own_errors_take_their_cause_along():
    hcb.id_tap(lambda *_: 1 / 0, 1.0)
    with pytest.raises(hcb.CallbackException) as info:
        hcb.barrier_wait()
    for way in WAYS.values():
        assert isinstance(way(info.value).__cause__, ZeroDivisionError)


def test_a_pickle_of_a_pickle_is_the_same():
    made = pickled(pickled(from_program(MyError("mine", payload=3))))
    assert isinstance(made, MyError)
    assert made.payload == 3


def test_errors_of_another_process_are_not_mistaken_for_local_ones():
    here = from_program(MyError("here"))
    elsewhere = jax.errors.JaxRuntimeError(str(here).replace(" of ", " of 0"))
    assert not isinstance(elsewhere, MyError)


@pytest.mark.parametrize("make", [from_program, from_barrier])
def test_reraise_lets_a_pickled_error_through_as_it_is(make):
    made = pickled(make(MyError("mine")))
    with pytest.raises(MyError) as info, callout.reraise():
        raise made from RuntimeError("what a pool of processes chains to it")
    assert info.value is made


def fail_in_program(number):
    if number == 1:
        from_barrier_or_program = jax.jit(lambda: callout.tap(_fail_as_told, 1.0))
        from_barrier_or_program()
        callout.barrier_wait()
    awaited(jax.jit(lambda x: callout.pure_callback(_fail_as_told, F32, x))(1.0))


def _fail_as_told(value):
    raise MyError("told to", payload=float(value))


def test_a_pool_of_processes_gives_the_error_to_its_parent():
    from_program(KeyError("the parent's own first"))
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        for number, kind in enumerate([jax.errors.JaxRuntimeError, callout.TapError]):
            with pytest.raises(MyError, match="MyError: told to") as info, callout.reraise():
                pool.submit(fail_in_program, number).result(timeout=300)
            assert isinstance(info.value, kind)
            assert info.value.payload == 1.0
