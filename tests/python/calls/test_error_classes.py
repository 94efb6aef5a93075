# SPDX-License-Identifier: Apache-2.0
"""Tests that a user's exception arrives even if its class misbehaves when it is derived from, read, set or copied."""

import contextlib
import dataclasses

import callout
import jax
import jax.numpy as jnp
import pytest
from platforms import awaited

CAUSE = vars(BaseException)["__cause__"]
F32 = jax.ShapeDtypeStruct((), jnp.float32)


class FinalError(Exception):
    def __init_subclass__(cls, **kwargs):
        raise RuntimeError("final")


class Registry(type):
    """A metaclass that rejects a second class of the same name."""

    def __new__(cls, name, bases, namespace):
        if name in globals():
            raise ValueError(f"there is a {name} already")
        return super().__new__(cls, name, bases, namespace)


class RegisteredError(Exception, metaclass=Registry):
    pass


class NoClass(type):
    """A metaclass by which deriving gives a number instead of a class."""

    def __new__(cls, name, bases, namespace):
        return super().__new__(cls, name, bases, namespace) if bases == (Exception,) else 3


class NumberError(Exception, metaclass=NoClass):
    pass


class Unhashable(type):
    def __hash__(cls):
        raise RuntimeError("no hash")


class UnhashableError(Exception, metaclass=Unhashable):
    pass


class SilentError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class SecretError(Exception):
    __notes__ = property(lambda self: 1 / 0)
    __dict__ = property(lambda self: 1 / 0)
    __cause__ = property(lambda self: 1 / 0)


class MuteError(Exception):
    def __getattribute__(self, name):
        raise RuntimeError("nothing can be read")


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class FixedError(Exception):
    def __setattr__(self, name, value):
        raise RuntimeError("nothing can be set")


CLASSES = [
    FinalError,
    RegisteredError,
    NumberError,
    UnhashableError,
    SilentError,
    SecretError,
    MuteError,
    FrozenError,
    FixedError,
]


@pytest.fixture
def raised(nothing_left_behind):
    """Collects the raised errors, and clears their tracebacks:

    JAX's frames in them would keep the program and the errors.
    """
    found = []
    yield found
    for error in found:
        BaseException.with_traceback(error, None)


def raising(kind, raised):
    """Makes a function that raises an error of `kind` and records it."""

    def fail(x):
        raised.append(kind(7))
        raise raised[-1]

    return fail


def caught(run):
    """Returns the error of `run`. pytest.raises would access more of its attributes."""
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - the tests look at it
        return error
    raise AssertionError("nothing was raised")


def program(fail):
    f = jax.jit(lambda x: callout.pure_callback(fail, F32, x))
    return lambda: awaited(f(1.0))


@pytest.mark.parametrize("kind", CLASSES)
def test_a_program_raises_jaxs_error_caused_by_the_users(kind, raised):
    fail = raising(kind, raised)
    run = program(fail)
    for _ in range(3):
        error = caught(run)
        assert issubclass(type(error), jax.errors.JaxRuntimeError)
        assert CAUSE.__get__(error) is raised[-1]
        assert f"{kind.__name__}: " in str(error)
        assert "in fail" in str(error)


@pytest.mark.parametrize("kind", CLASSES)
def test_reraise_raises_the_users_error(kind, raised):
    fail = raising(kind, raised)
    assert caught(callout.reraise()(program(fail))) is raised[-1]
    assert caught(lambda: callout.jit(lambda x: callout.pure_callback(fail, F32, x))(1.0)) is raised[-1]
    assert caught(callout.reraise()(lambda: fail(1.0))) is raised[-1]


@pytest.mark.parametrize("kind", CLASSES)
def test_the_barrier_raises_a_tap_error_caused_by_the_users(kind, raised):
    fail = raising(kind, raised)
    callout.tap(fail, 1.0)
    error = caught(callout.barrier_wait)
    assert issubclass(type(error), callout.TapError)
    assert CAUSE.__get__(error) is raised[-1]
    callout.tap(fail, 1.0)
    assert caught(callout.reraise()(callout.barrier_wait)) is raised[-1]


@pytest.mark.parametrize("kind", [FrozenError, FixedError])
def test_immutable_errors_accept_attributes_of_python_and_jax(kind, raised):
    @contextlib.contextmanager
    def managed():
        yield

    fail = raising(kind, raised)
    with pytest.raises(kind) as info, managed():
        program(fail)()
    info.value.add_note("a note")
    info.value.__cause__ = None
