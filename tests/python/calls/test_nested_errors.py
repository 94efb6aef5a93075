# SPDX-License-Identifier: Apache-2.0
"""Tests a callback that runs a program whose callback fails: the exception keeps its class through every program."""

import copy
import pickle

import callout
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


def _raises_mine(x):
    raise MyError("mine", payload=7)


def _watched(x):
    return callout.watch(x * jnp.nan, "nested", stop=True)


FAILING = {
    "pure_callback": (MyError, lambda x: callout.pure_callback(_raises_mine, F32, x)),
    "io_callback": (MyError, lambda x: callout.io_callback(_raises_mine, F32, x)),
    "error_if": (callout.CheckError, lambda x: callout.error_if(x, x > 0, "above")),
    "watch": (callout.NonFiniteError, _watched),
}


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("name", FAILING)
def test_an_exception_keeps_its_class_through_nested_programs(name, levels):
    kind, program = FAILING[name]

    def around(program):
        return jax.jit(lambda x: callout.pure_callback(lambda v: np.float32(awaited(program(v))), F32, x))

    program = jax.jit(program)
    for _ in range(levels - 1):
        program = around(program)
    for _ in range(3):
        with pytest.raises(kind) as info:
            awaited(program(jnp.float32(1)))
        error = info.value
        assert isinstance(error, jax.errors.JaxRuntimeError)
        assert type(error).__name__ == kind.__name__
        for way in (copy.copy, copy.deepcopy, lambda raised: pickle.loads(pickle.dumps(raised))):
            assert type(way(error)) is type(error)
        if kind is MyError:
            assert error.payload == 7
        causes = []
        while (error := error.__cause__) is not None:
            causes.append(type(error))
        assert len(causes) >= levels - 1
        assert all(issubclass(cause, kind) for cause in causes)
    with pytest.raises(kind), callout.reraise():
        awaited(program(jnp.float32(1)))


def test_a_class_that_derives_from_jaxs_error_is_kept():
    class OursError(jax.errors.JaxRuntimeError):
        pass

    def fail(x):
        raise OursError("of JAX's class")

    with pytest.raises(OursError, match="of JAX's class") as info:
        awaited(jax.jit(lambda x: callout.pure_callback(fail, F32, x))(1.0))
    assert type(info.value.__cause__) is OursError
    assert type(copy.copy(info.value)) is type(info.value)
