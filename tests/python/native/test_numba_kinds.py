# SPDX-License-Identifier: Apache-2.0
"""Tests the kernels that callout.numba accepts, and those that it rejects with a reason."""

import enum

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.numba import numba_kernel

numba = pytest.importorskip("numba")

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


@numba.njit
def double(x, out):
    out[...] = 2 * x


@pytest.mark.slow
def test_vectorize_and_a_cfunc_of_numbers_work_on_each_element():
    @numba.vectorize
    def blend(a, b):
        return 2 * a + b

    @numba.vectorize(["float32(float32, float32)", "int32(int32, int32)"])
    def typed(a, b):
        return 2 * a + b

    @numba.cfunc("float32(float32, float32)")
    def compiled(a, b):
        return 2 * a + b

    for kernel in (blend, typed, compiled):
        call = numba_kernel(kernel, lambda a, b: jax.ShapeDtypeStruct(jnp.broadcast_shapes(a.shape, b.shape), a.dtype))
        assert call(jnp.ones((2, 3)), jnp.arange(3.0)).tolist() == [[2, 3, 4]] * 2
        assert float(jax.jit(call)(jnp.float32(3), jnp.float32(1))) == 7


def test_guvectorize():
    @numba.guvectorize(["float32[:], float32[:]"], "(n)->()")
    def total(x, out):
        out[0] = 0
        for i in range(x.shape[0]):
            out[0] += x[i]

    assert numba_kernel(total, f32(2))(jnp.ones((2, 3))).tolist() == [3, 3]
    assert float(numba_kernel(total, F32)(jnp.ones(3))) == 3


def test_a_cfunc_of_pointers_and_extents():
    floats = numba.types.CPointer(numba.types.float32)

    @numba.cfunc(numba.types.int32(numba.types.CPointer(floats), numba.types.CPointer(numba.types.int64)))
    def plus_five(pointers, dims):
        for i in range(dims[0]):
            pointers[1][i] = pointers[0][i] + 5
        return 0 if dims[0] < 4 else 7

    call = numba_kernel(plus_five, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    assert jax.jit(call)(jnp.arange(3.0)).tolist() == [5, 6, 7]
    with pytest.raises(callout.CallbackError, match="error code 7"), callout.reraise():
        call(jnp.arange(4.0)).block_until_ready()


@pytest.mark.parametrize("options", [{"parallel": True}, {"fastmath": True}, {"error_model": "numpy"}], ids=str)
def test_options_of_njit(options):
    @numba.njit(**options)
    def kernel(x, out):
        for i in numba.prange(x.size):
            out[i] = 2 * x[i]

    x = jnp.arange(1000.0)
    call = numba_kernel(kernel, f32(1000), vmap_method="parallel")
    np.testing.assert_array_equal(jax.jit(call)(x), np.asarray(x) * 2)
    np.testing.assert_array_equal(jax.vmap(call)(jnp.stack([x, x])), np.stack([x, x]) * 2)


@pytest.mark.slow
def test_explicit_signatures():
    @numba.njit("void(float32[::1], float32[::1])")
    def kernel(x, out):
        out[:] = x + 1

    assert numba_kernel(kernel, f32(2))(jnp.ones(2)).tolist() == [2, 2]
    with pytest.raises(TypeError, match=r"'kernel': the kernel was compiled for \[\(Array\(float32, 1, 'C'"):
        numba_kernel(kernel, f32(2, 2))(jnp.ones((2, 2)))


@numba.njit
def returns(x, out):
    return x[0]


@numba.njit
def writes(x, out):
    x[0] = 1


@numba.njit
def untyped(x, out):
    out[0] = x.no_such_attribute


@numba.jit(forceobj=True)
def in_object_mode(x, out):
    pass


@numba.cfunc("float32(float32[:])")
def shapeless(x):
    return x[0]


X = jnp.ones(3)
REFUSED = [
    (lambda: numba_kernel(lambda x, out: None, f32(3)), "a plain Python function; decorate it with numba.njit"),
    (lambda: numba_kernel(3, f32(3)), "expected a function of numba.njit, vectorize, guvectorize or cfunc, got 3"),
    (lambda: numba_kernel(in_object_mode, f32(3)), "object mode, which runs in Python"),
    (lambda: numba_kernel(shapeless, f32(3)), "does not tell its shapes"),
    (lambda: numba_kernel(returns, f32(3))(X), "returns a value of type float32; a kernel writes into its results"),
    (lambda: numba_kernel(writes, f32(3))(X), "writes to an argument, whose memory is XLA's"),
    (lambda: numba_kernel(untyped, f32(3))(X), "(?s)Numba does not compile .*no_such_attribute"),
    (lambda: numba_kernel(double, f32(3))(X, X), "(?s)Numba does not compile .*too many positional arguments"),
    (lambda: numba_kernel(double, f32(3))(X, factor=2), "(?s)Numba does not compile .*factor"),
    (lambda: numba_kernel(double, f32(3))(X.astype(jnp.bfloat16)), "argument 0 is bfloat16, which Numba cannot"),
    (lambda: numba_kernel(double, f32(3))(X.astype(jnp.float16)), "argument 0 is float16, which Numba cannot"),
    (lambda: numba_kernel(double, jax.ShapeDtypeStruct((3,), jnp.float8_e5m2))(X), "result 0 is float8_e5m2"),
    (lambda: numba_kernel(double, jax.ShapeDtypeStruct((3,), jnp.int4))(X), "result 0 is int4"),
    (lambda: numba_kernel(double, f32(3))(X, n=2**80), "constant 'n' must be a number of 64 bits"),
    (lambda: numba_kernel(double, f32(3))(X, table=X), "constant 'table' is an array of JAX; pass it as an argument"),
    (lambda: numba_kernel(double, f32(3))(X, thing=object()), "constant 'thing' must be a number, a string, a tuple"),
    (lambda: numba_kernel(double, None)(X), "say what it returns"),
]


@pytest.mark.parametrize(("use", "message"), REFUSED, ids=range(len(REFUSED)))
def test_invalid_kernels_are_rejected(use, message):
    with pytest.raises(TypeError, match=message):
        use()


def test_aliases_that_do_not_fit():
    for aliases, message in [
        ({0: 1}, "there is no result 1; the call has 1"),
        ({2: 0}, "there is no argument 2; the call has 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            numba_kernel(double, f32(3), input_output_aliases=aliases)(X)
    with pytest.raises(ValueError, match=r"argument 0 is float32\[3\], result 0 is float32\[2\]"):
        numba_kernel(double, f32(2), input_output_aliases={0: 0})(X)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@numba.njit
def pick(x, out, what=None, where=slice(None)):
    out[...] = 1 if what == Colour.RED else 2
    out[:] += x[where].sum()


@pytest.mark.slow
def test_constants_of_other_values_are_other_code():
    call = numba_kernel(pick, f32(1))
    got = [float(call(X, what=colour)[0]) for colour in (Colour.RED, Colour.BLUE, Colour.RED)]
    assert got == [4, 5, 4]
    assert [float(call(X, what=Colour.RED, where=part)[0]) for part in (slice(0, 1), slice(0, 2))] == [2, 3]
    table = np.array([1.0, 2.0, 3.0])
    lookup = numba_kernel(look_up, f32(3))
    assert lookup(X, table=table).tolist() == [1, 2, 3]
    table[:] = 9
    assert lookup(X.astype(jnp.int32), table=np.array([1.0, 2.0, 3.0])).tolist() == [1, 2, 3]


@numba.njit
def look_up(x, out, table):
    for i in range(x.size):
        out[i] = table[i]


@numba.njit
def adds_in_place(x, out):
    x += 1


@numba.njit
def adds_into(x, out):
    np.add(x, x, x)


@pytest.mark.parametrize("kernel", [adds_in_place, adds_into], ids=lambda kernel: kernel.py_func.__name__)
def test_other_ways_to_write_to_an_argument(kernel):
    with pytest.raises(TypeError, match=r"arguments are read-only|writes to an argument"):
        numba_kernel(kernel, f32(3))(X)
    assert X.tolist() == [1, 1, 1]
