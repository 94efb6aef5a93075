# SPDX-License-Identifier: Apache-2.0
"""Tests that calls in the functions of reductions and scatters, which would crash XLA's compiler, are rejected clearly."""

import importlib.util
import re

import callout
import callout.cpp
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import ffi
from callout.buffer_callback import buffer_callback
from callout.numba import numba_kernel
from jax import lax

pytestmark = pytest.mark.usefixtures("handlers")

HAS_NUMBA = importlib.util.find_spec("numba") is not None
F32 = jax.ShapeDtypeStruct((), jnp.float32)
X = jnp.arange(8.0)


def add(a, b):
    return np.asarray(a) + np.asarray(b)


def fill(ctx, out, a, b):
    np.asarray(out)[...] = add(a, b)


@pytest.fixture(scope="module")
def native(cache):
    if platforms.BY_FALLBACK:
        return None
    source = """
    #include "callout/kernel.h"
    void add(callout::In<float> a, callout::In<float> b, callout::Out<float> y) { y[0] = a[0] + b[0]; }
    CALLOUT_KERNEL(add);
    """
    return callout.cpp.load_inline(source)


@pytest.fixture(scope="module")
def numba_add():
    if platforms.BY_FALLBACK or not HAS_NUMBA:
        return None
    import numba

    @numba.njit
    def add(a, b, out):
        out[()] = a[()] + b[()]

    kernel = numba_kernel(add, F32)
    kernel(jnp.float32(1), jnp.float32(2))  # compiles at the first call, and keeps the compiled function
    return kernel


@pytest.fixture
def call(request, native, numba_add):
    """Returns a function of two scalars that makes a call of the parametrized kind."""
    pure = lambda a, b: callout.pure_callback(add, F32, a, b)  # noqa: E731
    return {
        "pure_callback": pure,
        "of numbers": lambda a, b: callout.pure_callback(add, F32, a, 1.0),
        "name": lambda a, b: callout.pure_callback("add", F32, a, b),
        "in a jit": jax.jit(pure),
        "in a cond": lambda a, b: lax.cond(a > b, pure, lambda a, b: a, a, b),
        "buffer_callback": buffer_callback(fill, F32),
        "ffi_call": lambda a, b: ffi.ffi_call("test.affine", F32)(a, a=np.float32(1), b=np.int64(0)) + b,
        "cpp": native and native.add.options(out=F32),
        "numba": numba_add,
    }[request.param]


KINDS = ["pure_callback", "of numbers", "name", "in a jit", "in a cond", "buffer_callback", "ffi_call"]
if not platforms.BY_FALLBACK:
    KINDS += ["cpp", *(["numba"] if HAS_NUMBA else [])]
SCATTER = lax.ScatterDimensionNumbers((), (0,), (0,))
PLACES = {
    "reduce": lambda call: lambda x: lax.reduce(x, jnp.float32(0), call, (0,)),
    "reduce_window": lambda call: lambda x: lax.reduce_window(x, jnp.float32(0), call, (2,), (2,), "VALID"),
    "scatter": lambda call: (
        lambda x: lax.scatter_apply(x, jnp.array([[1]]), lambda a: call(a, a), SCATTER, update_shape=(1,))
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("call", KINDS, indirect=True)
def test_a_call_in_a_reducer_is_refused(call, place):
    program = PLACES[place](call)

    def used_outside_too(x):
        return call(x[0], x[1]) + program(x)

    ways = [program, jax.jit(program), jax.jit(jax.vmap(program)), jax.jit(used_outside_too)]
    for run, x in zip(ways, (X, X, X.reshape(2, 4), X), strict=True):
        with pytest.raises(NotImplementedError, match=f"is called in the function of a {place}, where XLA cannot"):
            run(x)


def test_the_rejection_names_the_function_and_the_remedy():
    with pytest.raises(NotImplementedError) as info:
        jax.jit(PLACES["reduce"](lambda a, b: callout.pure_callback(add, F32, a, b)))(X)
    assert str(info.value) == (
        "callout: 'test_reducers.add' is called in the function of a reduce, where XLA cannot compile a call. Loop over the "
        "elements by jax.lax.fori_loop or jax.lax.scan, or pass the whole array to one call"
    )


def test_reductions_without_calls_are_unaffected():
    def program(x):
        whole = callout.pure_callback(np.copy, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        total = lax.reduce(whole, jnp.float32(0), lambda a, b: jnp.maximum(a, b) + 1, (0,))
        return callout.pure_callback(add, F32, total, whole[0])

    assert np.isfinite(jax.jit(program)(X))


def test_effectful_callbacks_are_refused_by_jax():
    with pytest.raises(NotImplementedError, match=re.escape("Cannot lower effectful `reduce`")):
        jax.jit(PLACES["reduce"](lambda a, b: callout.tap(print, a) + b))(X)
