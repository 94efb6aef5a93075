# SPDX-License-Identifier: Apache-2.0
"""Tests that mocks and other callables that make up attributes are functions everywhere, and sinks are sinks."""

import functools
from unittest import mock

import callout
import callout.host
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import _ext
from callout._targets.function_targets import function_name


class Counted:
    def __call__(self, x):
        return x

    def method(self, x):
        return x


F32 = jax.ShapeDtypeStruct((), jnp.float32)


def three(*args, **kwargs):
    return np.float32(3)


class Called:
    """Records its calls."""

    __slots__ = ("__weakref__", "calls")

    def __init__(self):
        self.calls = []

    def __call__(self, *args, **kwargs):
        self.calls.append(args)
        return np.float32(3)


class HasEverything(Called):
    """Has every attribute, each of this class."""

    def __getattr__(self, name):
        return HasEverything()


class HasItself(Called):
    """Has every attribute, each the object itself, and no `__dict__`."""

    __slots__ = ()

    def __getattr__(self, name):
        return self


class HasNothing(Called):
    """Raises an unusual error for a missing attribute."""

    def __getattr__(self, name):
        raise KeyError(name)


CALLABLES = {
    "Mock": lambda: mock.Mock(return_value=np.float32(3)),
    "MagicMock": lambda: mock.MagicMock(return_value=np.float32(3)),
    "spec of a sink": lambda: mock.Mock(spec=callout.sinks.Print, return_value=np.float32(3)),
    "autospec": lambda: mock.create_autospec(three, return_value=np.float32(3)),
    "HasEverything": HasEverything,
    "HasItself": HasItself,
    "HasNothing": HasNothing,
}


@pytest.fixture(params=CALLABLES)
def fn(request):
    return CALLABLES[request.param]()


@pytest.fixture
def calls(fn):
    """Returns the number of calls."""
    return lambda: len(fn.calls) if isinstance(fn, Called) else fn.call_count


def wait():
    jax.effects_barrier()
    callout.barrier_wait()
    hcb.barrier_wait()


def of_name(fn, x):
    callout.register("a mock", fn)
    try:
        return callout.pure_callback("a mock", F32, x)
    finally:
        callout.unregister("a mock")


CALLS = {
    "pure": lambda fn, x: callout.pure_callback(fn, F32, x),
    "io": lambda fn, x: callout.io_callback(fn, F32, x),
    "options": lambda fn, x: callout.pure_callback(callout.options(fn, numpy_only=True), F32, x),
    "host_callback": lambda fn, x: hcb.call(fn, x, result_shape=F32),
    "register": of_name,
}

TAPS = {
    "debug": callout.debug_callback,
    "tap": callout.tap,
    "Function": lambda fn, x: callout.tap(callout.sinks.Function(fn), x),
    "Tee": lambda fn, x: callout.tap(callout.sinks.Tee(callout.sinks.Null(), fn), x),
    "id_tap": hcb.id_tap,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_take_it_for_a_function(name, fn, calls):
    assert CALLS[name](fn, jnp.float32(2)) == 3
    if name != "register":
        assert jax.jit(lambda x: CALLS[name](fn, x))(jnp.float32(2)) == 3
    wait()
    assert calls() == (1 if name == "register" else 2)


@pytest.mark.parametrize("name", TAPS)
def test_taps_take_it_for_a_function(name, fn, calls):
    TAPS[name](fn, jnp.float32(2))
    jax.block_until_ready(jax.jit(lambda x: (TAPS[name](fn, x), x))(jnp.float32(2)))
    wait()
    assert calls() == 2


def test_eager_taps_count_for_it(fn, calls):
    for _ in range(4):
        callout.tap(fn, 1.0, every=2)
    callout.barrier_wait()
    assert calls() == 2


def test_hosts_take_it_for_a_function(fn):
    assert callout.host.LoadedHostCallback("a mock", fn, results=F32).name == "a mock"


def test_its_name_is_that_of_its_class():
    assert function_name(mock.Mock()) == "unittest.mock.Mock"
    assert function_name(HasEverything()) == "test_mocks.HasEverything"
    assert function_name(HasNothing()) == "test_mocks.HasNothing"


def of_two(x, y):
    return x + y


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (np.sin, "numpy.sin"),
        (np.add.reduce, "numpy.add.reduce"),
        (np.frompyfunc(of_two, 2, 1), "of_two (vectorized)"),
        (np.vectorize(of_two), "numpy.vectorize(of_two)"),
        (jnp.add, "jax.numpy.ufunc(add)"),
        (jax.jit(of_two), "test_mocks.of_two"),
        (functools.partial(of_two, 1), "test_mocks.of_two"),
        (functools.partial(np.sin), "numpy.sin"),
        (jax.jit(np.positive), "numpy.positive"),
        ([].append, "builtins.list.append"),
        (Counted().method, "test_mocks.Counted.method"),
        (Counted(), "test_mocks.Counted"),
    ],
)
def test_callables_are_named_apart(function, name):
    assert function_name(function) == name


def test_ufuncs_of_scipy_are_named_apart():
    special = pytest.importorskip("scipy.special")
    _ext.reset_statistics()
    x = jnp.ones(2)
    jax.jit(lambda x: callout.pure_callback(special.j0, x, x) + callout.pure_callback(special.j1, x, x))(x)
    counted = callout.stats()["callbacks"]
    assert [counted[f"scipy.special.{name}"]["calls"] for name in ("j0", "j1")] == [1, 1]


def test_a_sink_is_known_by_its_class():
    x = jnp.float32(2)
    callout.tap(callout.sinks.Tee(callout.sinks.Null(name="first"), callout.sinks.Null(name="second"), name="both"), x)
    callout.barrier_wait()
    assert {name: callout.stats()["callbacks"][name]["calls"] for name in ("both", "first", "second")} == dict.fromkeys(
        ("both", "first", "second"), 1
    )
    with pytest.raises(TypeError, match="is a sink, which takes taps"):
        callout.pure_callback(type("Callable", (callout.sinks.Null,), {"__call__": three})(), F32, x)
    with pytest.raises(TypeError, match="expected a callable, a sink or the name of a callback"):
        callout.tap(mock.NonCallableMock(), x)
    with pytest.raises(TypeError, match="expected a sink, a callable or the name of a callback"):
        callout.sinks.Tee(mock.NonCallableMock())
