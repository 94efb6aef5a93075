# SPDX-License-Identifier: Apache-2.0
"""Tests Python numbers as results: for every dtype, the result is the rounded number or a ResultError."""

import math

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

INTEGERS = ["int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64"]
SMALL_FLOATS = [
    "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e3m4",
    "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn",
]  # fmt: skip
FLOATS = ["float16", "bfloat16", "float32", "float64", *SMALL_FLOATS]
COMPLEX = ["complex64", "complex128"]
ALL = ["bool", *INTEGERS, *FLOATS, *COMPLEX]

NUMBERS = [
    True, False, 0, 1, -1, 3, 7, 8, -8, -9, 15, 16, 127, 128, -129, 255, 256, 300, 2**15, 2**31 - 1, 2**31, -(2**31) - 1,
    2**32, 2**53 + 1, 2**60 + 2**36 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 2**70, 10**400,
    0.0, 0.5, 1.0, 1.5, -1.5, 6.5, 7.0, 300.0, 70000.0, 1e10, -1e10, 3e38, 1e39, 1e300, 1e-50,
    math.nan, math.inf, -math.inf, 1j, 2 + 0j, complex(math.nan, 1), 1e300 + 1j,
]  # fmt: skip


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def neighbours(name, number):
    """Returns a small type's nearest values below and above a number (or None), its finite values, and whether it has
    infinity.
    """
    bits = 4 if name.startswith("float4") else 8
    values = [float(v) for v in np.arange(2**bits, dtype=np.uint8).view(dtype_of(name)).astype(np.float64)]
    finite = sorted({v for v in values if math.isfinite(v)})
    below = [v for v in finite if v <= number]
    above = [v for v in finite if v >= number]
    return (below[-1] if below else None), (above[0] if above else None), finite, math.inf in values


def small_float(name, number):
    """Returns the values that a small type may store for a number; none if the number must be rejected."""
    below, above, finite, has_infinity = neighbours(name, number)
    if math.isnan(number):
        return [] if name == "float4_e2m1fn" else [math.nan]
    if math.isinf(number):
        return [number] if has_infinity else []
    if below is not None and above is not None:
        nearest = min(abs(number - below), abs(above - number))
        return [v for v in (below, above) if abs(v - number) == nearest]
    largest = finite[-1]
    if abs(number) > largest:
        # A number rounds to the largest value if it would do so with one more value behind it.
        step = largest - finite[-2]
        if name == "float8_e8m0fnu":
            return [largest] if 0 < number < 1.5 * largest else []
        if name == "float4_e2m1fn" and abs(number) >= largest + step / 2:
            return []
        if abs(number) <= largest + step / 2:
            return [math.copysign(largest, number)] + ([math.copysign(math.inf, number)] if has_infinity else [])
        return [math.copysign(math.inf, number)] if has_infinity else []
    return []  # below the least value of a type without zero, or of a sign that the type lacks


def expected(name, number):
    """Returns the values that may be stored, by the rules of docs/calls.md; none if the number must be rejected."""
    if isinstance(number, bool):
        return [number] if name not in FLOATS else expected(name, int(number))
    if name == "bool":
        return []
    if name in INTEGERS:
        if not isinstance(number, int):
            return []
        bits = int(name.lstrip("uint"))
        low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return [number] if low <= number <= high else []
    if name in COMPLEX:
        part = "float32" if name == "complex64" else "float64"
        if not isinstance(number, complex):
            return [complex(value) for value in expected(part, number)]
        return [complex(*expected(part, number.real), *expected(part, number.imag))]
    if isinstance(number, complex):
        return []
    try:
        real = float(number)
    except OverflowError:
        return []
    if name in SMALL_FLOATS:
        return small_float(name, real)
    if name == "bfloat16":
        return [float(jnp.asarray(np.float32(real)).astype(jnp.bfloat16))]
    # Integers of up to 64 bits are rounded once, not through a double.
    exact = np.array(number) if isinstance(number, int) and -(2**63) <= number < 2**64 else real
    return [float(np.dtype(name).type(exact))]


def same(a, b):
    if isinstance(a, complex) or isinstance(b, complex):
        a, b = complex(a), complex(b)
        return same(a.real, b.real) and same(a.imag, b.imag)
    return (a != a and b != b) or a == b


def stored(name, number, jitted):
    spec = jax.ShapeDtypeStruct((), dtype_of(name))
    f = lambda x: callout.pure_callback(lambda _: number, spec, x)  # noqa: E731
    with callout.reraise():
        return np.asarray((jax.jit(f) if jitted else f)(np.float32(1)))


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
@pytest.mark.parametrize("name", ALL)
def test_every_dtype_stores_the_number_or_refuses_it(name):
    wrong = []
    with jax.enable_x64(True):
        for number in NUMBERS:
            allowed = expected(name, number)
            try:
                out = stored(name, number, jitted=False)
            except callout.ResultError:
                if allowed:
                    wrong.append((number, "refused", allowed))
                continue
            assert out.dtype == dtype_of(name)
            got = out.item() if name not in FLOATS else float(out.astype(np.float64))
            if not any(same(got, value) for value in allowed):
                wrong.append((number, got, allowed))
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("int4", 300, "a value is out of the range of s4"),
        ("int4", 2**31, "a value is out of the range of s4"),
        ("int4", 1.5, r"expected s4\[\], got f64\[\]"),
        ("int4", math.nan, r"expected s4\[\], got f64\[\]"),
        ("uint8", -1, "a value is out of the range of u8"),
        ("bfloat16", 1j, r"expected bf16\[\], got c128\[\]"),
        ("float8_e4m3fn", 1j, r"expected f8e4m3fn\[\], got c128\[\]"),
        ("float8_e4m3fn", math.inf, "a value is out of the range of f8e4m3fn"),
        ("float4_e2m1fn", math.nan, "a value is out of the range of f4e2m1fn"),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_numbers_that_a_dtype_does_not_have_are_named(name, number, message, jitted):
    with pytest.raises(callout.ResultError, match=message):
        stored(name, number, jitted)


@pytest.mark.parametrize(("name", "number"), [("int4", -8), ("uint8", 255), ("bfloat16", 3), ("float8_e5m2", 1.5)])
def test_numbers_that_fit_pass_through_programs(name, number):
    assert float(stored(name, number, jitted=True)) == number
