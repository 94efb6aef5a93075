# SPDX-License-Identifier: Apache-2.0
"""Compares the core's text of arrays with NumPy's, byte for byte."""

import numpy as np
import pytest
from callout import _ext
from callout._targets import print_target

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
LEAF = _ext.ValueLayout([(1, "", 0)])


def native(array, threshold=1000):
    return LEAF.text([array], threshold, print_target._EXPONENTS_FROM)


def random_shape(rng):
    rank = rng.integers(0, 3)
    return tuple(rng.integers(0, 12 if rank == 2 else 40, rank))


def random_floats(rng, dtype, shape):
    kind = rng.integers(0, 6)
    values = rng.standard_normal(shape)
    if kind == 0:  # any bits
        bits = np.random.default_rng(rng.integers(1 << 30)).bytes(max(1, values.size) * np.dtype(dtype).itemsize)
        return np.frombuffer(bits, dtype)[: values.size].reshape(shape)
    if kind == 1:  # few digits
        values = np.round(values * 100) / rng.choice([1, 4, 10, 1000])
    elif kind == 2:  # around the limits of positional notation
        values = values * 10.0 ** rng.integers(-6, 10)
    elif kind == 3:  # wide ranges
        values = values * 10.0 ** rng.integers(-30, 30, shape)
    elif kind == 4:  # NaN, infinities and zeros
        values = np.where(rng.random(shape) < 0.3, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), values)
    else:  # neighbours of powers of ten and two
        base = rng.choice([1e8, 1e-4, 1e6, 2.0**26, 1000.0, 1e16, 0.5], shape)
        values = np.nextafter(base.astype(dtype), np.array(rng.choice([-np.inf, np.inf], shape), dtype))
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, dtype)


def random_integers(rng, dtype, shape):
    info = np.iinfo(dtype)
    low, high = (info.min, info.max) if rng.random() < 0.5 else (max(info.min, -50), min(info.max, 50))
    return rng.integers(low, high, shape, dtype, endpoint=True)


def random_array(rng):
    shape = random_shape(rng)
    kind = rng.integers(0, 4)
    if kind == 0:
        return np.asarray(rng.random(shape) < 0.5)
    if kind == 1:
        return np.asarray(random_integers(rng, rng.choice(INTEGERS), shape))
    return random_floats(rng, "float32" if kind == 2 else "float64", shape)


@pytest.mark.filterwarnings("ignore:.*encountered")
@pytest.mark.parametrize("seed", range(20))
def test_random_arrays(seed):
    rng = np.random.default_rng(seed)
    for _ in range(5000):
        array = random_array(rng)
        assert native(array) == np.array2string(array), (array.dtype, array.tolist())


def test_more_dimensions():
    for shape in [(2, 3, 4), (1, 2, 1, 3), (2, 2, 2, 2, 2)]:
        array = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
        assert native(array) == np.array2string(array)


def test_deep_arrays_leave_room_for_their_brackets():
    array = np.arange(70.0).reshape(1, 1, 1, 1, 1, 70)
    assert native(array) == np.array2string(array)


def test_words_longer_than_a_line():
    array = np.full((1,) * 31 + (3,), 1 << 62)
    assert native(array) == np.array2string(array)


@pytest.mark.filterwarnings("ignore:.*encountered")
@pytest.mark.parametrize("seed", range(5))
def test_above_the_threshold(seed):
    rng = np.random.default_rng(seed)
    for _ in range(3000):
        array = random_array(rng)
        threshold = int(rng.integers(-1, 30))
        assert native(array, threshold) == np.array2string(array, threshold=threshold), (array.dtype, array.tolist())


@pytest.mark.parametrize(
    "shape", [(1001,), (7, 200), (1200, 1), (2, 600), (8, 8, 20), (3, 7, 2, 9, 4), (1, 1, 1001), (1300, 1, 1)], ids=str
)
def test_long_axes_are_cut(shape):
    for dtype in ("float32", "float64", "int32", "uint8", "bool"):
        array = (np.arange(np.prod(shape)).reshape(shape) * 0.37).astype(dtype)
        assert native(array) == np.array2string(array)
        assert native(array, threshold=1 << 40) == np.array2string(array, threshold=1 << 40)


@pytest.mark.parametrize("dtype", ["float16", "complex64", "complex128"])
def test_dtypes_that_numpy_formats(dtype):
    assert native(np.ones(3, dtype)) is None
