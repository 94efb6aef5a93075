# SPDX-License-Identifier: Apache-2.0
"""Tests that every dtype and shape leaves a program and returns unchanged, as calls and as taps."""

import callout
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Compiling dominates the time, so examples are few and small.
few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)

NATIVE = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64"]
WIDE = ["int64", "uint64", "float64", "complex128"]
SMALL = [
    "bfloat16", "int2", "int4", "uint2", "uint4", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2fnuz",
    "float8_e4m3fnuz", "float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn",
]  # fmt: skip
SHAPES = [(), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4, 1)]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def sample(name, shape):
    rng = np.random.default_rng(len(shape) + sum(map(ord, name)))
    dtype = dtype_of(name)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if name.startswith(("int", "uint")):
        bits = int("".join(c for c in name if c.isdigit()))
        low, high = (
            (0, 1 << min(bits, 40)) if name[0] == "u" else (-(1 << (min(bits, 40) - 1)), 1 << (min(bits, 40) - 1))
        )
        return rng.integers(low, high, shape).astype(dtype)
    values = (
        np.asarray(2.0 ** rng.integers(0, 2, shape))
        if name in ("float8_e8m0fnu", "float4_e2m1fn")
        else rng.normal(size=shape)
    )
    if name.startswith("complex"):
        return (values + 1j * rng.normal(size=shape)).astype(dtype)
    return np.asarray(values).astype(dtype)


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def round_trip(value, jit):
    seen, tapped = [], []

    def callback(x):
        seen.append(x)
        return x

    def f(x):
        y = callout.pure_callback(callback, jax.ShapeDtypeStruct(value.shape, value.dtype), x)
        return callout.tap(tapped.append, y)

    out = (jax.jit(f) if jit else f)(jnp.asarray(value))
    callout.barrier_wait()
    if value.size or not jit:  # XLA drops the computation of an array without elements
        same(seen[0], value)
    same(tapped[0], value)
    same(np.asarray(out), value)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", NATIVE + SMALL)
def test_every_dtype(name, jit):
    for shape in SHAPES:
        round_trip(sample(name, shape), jit)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", WIDE)
def test_every_64_bit_dtype(name, jit):
    with jax.enable_x64(True):
        for shape in SHAPES:
            round_trip(sample(name, shape), jit)


@pytest.mark.parametrize("elements", [1023, 1024, 1025, 8191, 8192, 8193, 65_537, 300_000])
def test_sizes_around_the_copy_thresholds(elements):
    round_trip(np.arange(elements, dtype=np.float32), jit=True)
    round_trip((np.arange(elements) % 16).astype(ml_dtypes.uint4), jit=True)


@few
@given(st.data())
def test_any_shape_and_dtype(data):
    name = data.draw(st.sampled_from(NATIVE))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    value = data.draw(hnp.arrays(np.dtype(name), shape))
    round_trip(value, jit=data.draw(st.booleans()))


leaves = st.sampled_from(
    [np.float32(1.5), np.int32(3), np.zeros((2, 3), np.float32), np.ones(0, np.uint8), np.bool_(True)]
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.just(None),
    ),
    max_leaves=6,
)


@few
@given(trees, st.booleans())
def test_any_tree(tree, jit):
    tapped = []

    def f(t):
        spec = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), tree)
        return callout.tap(tapped.append, callout.pure_callback(lambda v: v, spec, t))

    out = (jax.jit(f) if jit else f)(tree)
    callout.barrier_wait()
    assert jax.tree.structure(out) == jax.tree.structure(tree)
    jax.tree.map(lambda a, b: same(np.asarray(a), np.asarray(b)), out, tree)
    if jax.tree.leaves(tree):
        assert jax.tree.structure(tapped[0]) == jax.tree.structure(tree)
        jax.tree.map(lambda a, b: same(np.asarray(a), np.asarray(b)), tapped[0], tree)
