# SPDX-License-Identifier: Apache-2.0
"""Tests results of a call that one device makes for all: each device has the same bits, after one rendezvous."""

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import platforms
import pytest
from callout._targets.partitioning import partitioned_calls
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

pytestmark = pytest.mark.collectives


@pytest.fixture(autouse=True, params=["meeting", "collectives"])
def way(request, monkeypatch):
    """Makes devices meet in Callout's rendezvous, as on CPUs of one process, or by XLA's collectives, as elsewhere."""
    if request.param == "collectives":
        monkeypatch.setattr(partitioned_calls, "in_meeting", lambda call: None)
    return request.param


def argument():
    mesh = Mesh(np.array(platforms.devices(4)), ("d",))
    return jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("d")))


def spread(f):
    """Returns the result of jitted `f` for an argument that is spread over the devices."""
    return jax.block_until_ready(jax.jit(f)(argument()))


DTYPES = [
    *("bool", "int8", "uint8", "int16", "int32", "uint32", "float16", "float32", "complex64"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4),
    ml_dtypes.float4_e2m1fn,
]


@pytest.mark.collectives
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_every_dtype_returns_bit_by_bit(dtype):
    value = np.array([1, 0, 1, 1, 0, 1, 0, 1]).astype(dtype)
    shape = jax.ShapeDtypeStruct((8,), value.dtype)
    out = np.asarray(spread(lambda v: callout.pure_callback(lambda _: value, shape, v)))
    assert out.dtype == value.dtype
    assert out.tobytes() == value.tobytes()


@pytest.mark.collectives
def test_negative_zero_and_nan_return_bit_by_bit():
    value = np.array([-0.0, np.nan, np.inf, -np.inf, 1e-45, 0, -1, 2], np.float32)
    pairs = np.empty(8, np.complex64)
    pairs.real, pairs.imag = value, value[::-1]
    for data in (value, pairs):
        shape = jax.ShapeDtypeStruct((8,), data.dtype)
        out = spread(lambda v, data=data, shape=shape: callout.pure_callback(lambda _: data, shape, v))
        assert np.asarray(out).tobytes() == data.tobytes()


def returning(values):
    shapes = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values]
    return lambda v: callout.pure_callback(lambda _: values, shapes, v)


KINDS = {
    "words": ["float32", "int32"],
    "words and halves": ["float32", ml_dtypes.bfloat16, "float16", "uint32"],
    "all": DTYPES,
    "large ones too": ["float32", "int8", "large", "bool"],
    "nothing but large": ["large"],
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_results_of_several_kinds_return_bit_by_bit(kinds):
    random = np.random.default_rng(0)
    values = []
    for i, kind in enumerate(kinds):
        if kind == "large":
            values.append(random.standard_normal(20_000).astype(np.float32))
        else:
            values.append(random.integers(0, 2, (i % 3, 5)[: 1 + i % 2]).astype(kind))
    outs = spread(returning(values))
    assert [np.asarray(out).tobytes() for out in outs] == [value.tobytes() for value in values]
    assert [out.shape for out in outs] == [value.shape for value in values]


@pytest.mark.native_only(platforms.TEXT)
@pytest.mark.parametrize(
    ("kinds", "size", "meetings"),
    [
        ([], 4, 1),
        (["float32"], 4, 1),
        (["float32", "bool", "complex64", "bfloat16"], 4, 1),
        (["float32", "int8"], 20_000, 2),
    ],
)
def test_devices_meet_once_for_small_results_and_failures(kinds, size, meetings, way):
    shapes = [jax.ShapeDtypeStruct((size,), kind) for kind in kinds]
    f = jax.jit(lambda v: callout.io_callback(lambda _: None, shapes, v))
    text = f.lower(argument()).compile().as_text()
    sums = [line for line in text.splitlines() if " all-reduce(" in line or " all-reduce-start(" in line]
    assert len(sums) == (0 if way == "meeting" else meetings), sums


def test_wide_results_return_bit_by_bit():
    with jax.enable_x64():
        value = np.array([-0.0, np.nan, np.pi, 2**53 + 2, -1e-300, 1, 2, 3])
        kinds = [value, value.view(np.int64), value + 1j * value[::-1]]
        outs = spread(returning(kinds))
    assert [np.asarray(out).tobytes() for out in outs] == [kind.tobytes() for kind in kinds]
