# SPDX-License-Identifier: Apache-2.0
"""Tests `callout.host.LoadedHostCallback`: Python functions for a host of the same process."""

import collections
import gc
import weakref

import callout
import closure_host
import jax
import numpy as np
import platforms
import pytest
from callout.host import LoadedHostCallback
from thread_states import left_by

pytestmark = pytest.mark.cpu_only(platforms.HOST)


@pytest.fixture(scope="session")
def host(tmp_path_factory):
    return closure_host.Host(closure_host.build(tmp_path_factory.mktemp("host")))


@pytest.fixture
def take(host):
    """Returns a function that takes a callback's closure; taken closures end after the test."""
    taken = []

    def take(callback):
        closure = host.take(callback.capsule())
        taken.append(closure)
        return closure

    yield take
    for closure in taken:
        host.drop(closure)


def collected(reference):
    """Returns true once the object is gone; pending calls drop references that the host's threads released."""
    callout.options(len)  # any Python call runs the pending calls
    gc.collect()
    return reference() is None


def test_a_host_calls_it_from_its_own_thread(host, take):
    callback = LoadedHostCallback("scale", lambda x: 2 * x)
    assert callback.name == "scale"
    assert repr(callback) == "LoadedHostCallback('scale')"
    assert host.run(take(callback), [1, 2, 3]) == (0, "", [2, 4, 6])


def test_results_may_be_anything_that_has_one_leaf(host, take):
    assert host.run(take(LoadedHostCallback("list", lambda x: [x + 1])), [1, 2]) == (0, "", [2, 3])


def test_results_with_names_are_taken_by_name(host, take):
    like = {"b": jax.ShapeDtypeStruct((2,), "float32")}
    assert host.run(take(LoadedHostCallback("named", lambda x: collections.OrderedDict(b=x), results=like)), [1, 2])[
        2
    ] == [1, 2]
    code, text, _ = host.run(take(LoadedHostCallback("other", lambda x: {"c": x}, results=like)), [1, 2])
    assert code != 0
    assert "names are matched, in any order, and these differ" in text


def test_a_call_without_results_is_a_tap(host, take, received):
    def show(value):
        received.append(value.tolist())
        return "ignored"

    assert host.run(take(LoadedHostCallback("show", show)), [1, 2], has_result=False)[:2] == (0, "")
    assert received == [[1, 2]]


def test_an_exception_fails_the_call_with_its_class_and_text(host, take):
    raised = KeyError("no such row")

    def fail(x):
        raise raised

    code, text, _ = host.run(take(LoadedHostCallback("fail", fail)), [1])
    assert code == 13
    assert text.startswith("KeyError: 'no such row'\nTraceback")
    assert "in fail\n" in text
    assert callout.last_error() is raised


def test_results_of_another_shape_are_rejected_with_the_expected_one(host, take):
    code, text, _ = host.run(take(LoadedHostCallback("short", lambda x: x[:1])), [1, 2])
    assert code == 3
    assert text == "its result does not fit: expected f32[2], got f32[1]"


def test_declared_results_are_checked_before_the_program_s(host, take):
    two = jax.ShapeDtypeStruct((2,), np.float32)
    fits = LoadedHostCallback("fits", lambda x: {"y": x}, results={"y": two})
    assert host.run(take(fits), [1, 2]) == (0, "", [1, 2])
    code, text, _ = host.run(take(LoadedHostCallback("pair", lambda x: (x, x), results=two)), [1, 2])
    assert (code, "expected shape (2,), got (2, 2)" in text) == (13, True)
    code, text, _ = host.run(take(LoadedHostCallback("short", lambda x: x[:1], results=two)), [1, 2])
    assert code == 13
    assert "ResultError: callback 'short': its result 0 does not fit: expected shape (2,), got (1,)" in text


def test_invalid_functions_names_and_results_are_rejected():
    with pytest.raises(callout.RegistrationError, match="the name must be a string and not empty, got ''"):
        LoadedHostCallback("", len)
    with pytest.raises(callout.RegistrationError, match=r"results must be a tree of jax\.ShapeDtypeStruct, got 3"):
        LoadedHostCallback("f", print, results=3)
    with pytest.raises(callout.RegistrationError, match="'f': expected a Python function, got 3"):
        LoadedHostCallback("f", 3)
    with pytest.raises(callout.RegistrationError, match="the host makes sinks itself"):
        LoadedHostCallback("s", callout.sinks.Null())


def make(name):
    """Returns a callback and a weak reference to its function."""

    def function(x):
        return x + 1

    return LoadedHostCallback(name, function), weakref.ref(function)


def test_the_function_dies_with_the_callback():
    callback, function = make("gone")
    assert function() is not None
    del callback
    assert collected(function)


def test_an_untaken_capsule_keeps_and_ends_its_closure():
    callback, function = make("capsule")
    capsule = callback.capsule()
    del callback
    assert not collected(function)
    del capsule
    assert collected(function)


def test_a_taken_closure_outlives_callback_and_capsule(host):
    callback, function = make("taken")
    capsule = callback.capsule()
    taken = host.take(capsule)
    del callback, capsule
    assert not collected(function)
    assert host.run(taken, [1]) == (0, "", [2])
    host.drop(taken)  # on a thread that does not hold the GIL
    assert collected(function)


def test_each_capsule_is_a_closure_of_its_own(host):
    callback, function = make("two")
    capsule = callback.capsule()
    first = host.take(capsule)
    assert host.take(capsule) is None
    second = host.take(callback.capsule())
    host.drop(first)
    del callback
    assert not collected(function)
    assert host.run(second, [1]) == (0, "", [2])
    host.drop(second)
    assert collected(function)


def test_threads_of_the_host_leave_nothing_behind(host, take):
    taken = take(LoadedHostCallback("threads", lambda x: x))

    def run():
        assert host.run(taken, [1])[0] == 0

    run()
    assert left_by(run) < 0.1
