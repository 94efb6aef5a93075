# SPDX-License-Identifier: Apache-2.0
"""callout.buffer_callback.Buffer: protocols, every dtype, and references that outlive their call."""

import ctypes
import gc
import weakref

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import Buffer, buffer_callback
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.cpu_only("NumPy does not read memory of a device; test_gpu_buffers.py does")

F3 = jax.ShapeDtypeStruct((3,), jnp.float32)
PLAIN = ["bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))]
PLAIN += ["float16", "float32", "float64", "complex64", "complex128"]
ML = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]

ASARRAY = {
    "asarray": np.asarray,
    "__array__": lambda buffer: buffer.__array__(),
    "memoryview": lambda buffer: np.asarray(memoryview(buffer)),
    "from_dlpack": np.from_dlpack,
}


def inside(use, x):
    """Calls `use(out, x)` inside a program; returns the program's result and the value that `use` returned."""
    returned, like = [], jax.ShapeDtypeStruct(x.shape, x.dtype)

    def callback(ctx, out, buffer):
        np.asarray(out)[...] = 0
        returned.append(use(out, buffer))

    with callout.reraise():
        out = jax.jit(buffer_callback(callback, like, has_side_effect=True))(x)
        jax.block_until_ready(out)
    return out, returned[0]


@pytest.mark.parametrize("way", ASARRAY)
@given(st.sampled_from(PLAIN), st.lists(st.integers(0, 3), max_size=4), st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_every_dtype_and_shape(way, dtype, shape, seed):
    view = ASARRAY[way]
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    bits = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 256, size, np.uint8)
    with jax.enable_x64(True):
        x = jnp.asarray(bits.view(dtype).reshape(shape))
        out, seen = inside(
            lambda out, b: (np.copyto(view(out), view(b)), (b.shape, b.dtype, b.ndim, b.size, b.nbytes))[1], x
        )
    assert seen == (x.shape, x.dtype, x.ndim, x.size, x.nbytes)
    assert np.asarray(out).tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("dtype", ML)
def test_dtypes_of_ml_dtypes(dtype):
    x = jnp.arange(4).astype(dtype)

    def copy(out, buffer):
        with pytest.raises(BufferError, match=f"the buffer protocol has no dtype {dtype}"):
            memoryview(buffer)
        capsule = buffer.__dlpack__(max_version=(1, 0))
        assert "dltensor_versioned" in repr(capsule)
        del capsule
        np.asarray(out)[...] = np.asarray(buffer)
        return np.asarray(buffer).dtype

    out, seen = inside(copy, x)
    assert seen == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(out), np.asarray(x))


def test_other_libraries_read_bfloat16_through_dlpack():
    x = jnp.arange(4).astype(jnp.bfloat16)

    _, got = inside(lambda out, buffer: np.array(jnp.from_dlpack(buffer, copy=True)), x)
    np.testing.assert_array_equal(got, np.asarray(x))


def test_arrays_of_another_dtype_and_copies_are_owned():
    x = jnp.arange(3.0)

    def use(out, buffer):
        kept = [
            np.array(buffer),
            np.asarray(buffer, np.int16),
            buffer.__array__(copy=True),
            np.from_dlpack(buffer, copy=True),
        ]
        with pytest.raises(ValueError, match="cannot be made without a copy"):
            buffer.__array__(np.int16, copy=False)
        assert np.shares_memory(np.asarray(buffer), np.asarray(buffer))
        return kept

    _, kept = inside(use, x)
    for array in kept:
        assert array.tolist() == [0, 1, 2]
        assert array.flags.owndata or array.base is not None
    assert [array.dtype for array in kept] == [np.float32, np.int16, np.float32, np.float32]


def test_dlpack_versions_and_devices():
    def use(out, buffer):
        assert buffer.__dlpack_device__() == (1, 0)
        assert "dltensor_versioned" not in repr(buffer.__dlpack__())
        assert "dltensor_versioned" in repr(buffer.__dlpack__(max_version=(1, 2), dl_device=(1, 0), stream=None))
        with pytest.raises(BufferError, match="in the CPU's memory"):
            buffer.__dlpack__(dl_device=(2, 0))
        assert not np.from_dlpack(buffer).flags.writeable, "arguments are read-only"
        assert np.from_dlpack(out).flags.writeable

    inside(use, jnp.arange(3.0))


def test_it_looks_like_an_array():
    def use(out, buffer):
        assert isinstance(buffer, Buffer)
        assert (len(buffer), buffer.writeable, out.writeable) == (2, False, True)
        assert repr(buffer) == "<callout Buffer f32[2,3], read-only>"
        assert repr(out) == "<callout Buffer f32[2,3]>"
        with pytest.raises(TypeError, match="read-only"):
            memoryview(buffer).cast("B")[0] = 0
        with pytest.raises(TypeError, match="cannot create"):
            Buffer()

    inside(use, jnp.ones((2, 3)))
    with pytest.raises(TypeError, match="of a scalar"):
        inside(lambda out, buffer: len(buffer), jnp.ones(()))


USES = {
    "shape": lambda b: b.shape,
    "dtype": lambda b: b.dtype,
    "size": lambda b: b.size,
    "nbytes": lambda b: b.nbytes,
    "ndim": lambda b: b.ndim,
    "writeable": lambda b: b.writeable,
    "len": len,
    "array": np.asarray,
    "memoryview": memoryview,
    "dlpack": lambda b: b.__dlpack__(),
    "device": lambda b: b.__dlpack_device__(),
}


@pytest.mark.parametrize("use", USES)
def test_every_later_use_is_an_error(use):
    _, kept = inside(lambda out, buffer: (out, buffer), jnp.arange(3.0))
    for buffer in kept:
        assert repr(buffer) == "<callout Buffer of a call that is over>"
        with pytest.raises(ValueError, match="belongs to a call that is over"):
            USES[use](buffer)


KEEP = {
    "an array": np.asarray,
    "an array by __array__": lambda b: b.__array__(),
    "a view of an array": lambda b: np.asarray(b)[1:],
    "a view of a view": lambda b: b.__array__()[1:].reshape(1, -1).T,
    "a memoryview": memoryview,
    "a tensor": np.from_dlpack,
    "a capsule": lambda b: b.__dlpack__(),
}


@pytest.mark.parametrize("which", ["argument 0", "result 0"])
@pytest.mark.parametrize("what", KEEP)
def test_arrays_that_outlive_the_call_are_reported(what, which):
    kept = []
    with pytest.raises(
        callout.CallbackError, match=f"kept an array, a memoryview or a tensor of {which} beyond its call"
    ):
        inside(lambda out, b: kept.append(KEEP[what](b if which == "argument 0" else out)), jnp.arange(3.0))
    kept.clear()
    out, _ = inside(lambda out, b: None, jnp.arange(3.0))
    assert out.tolist() == [0, 0, 0]


def test_garbage_is_not_kept():
    def use(out, buffer):
        cycle = [np.asarray(buffer)]
        cycle.append(cycle)
        return weakref.ref(cycle[0])

    _, reference = inside(use, jnp.arange(3.0))
    gc.collect()
    assert reference() is None


def test_pytorch():
    torch = pytest.importorskip("torch", exc_type=ImportError)

    def use(out, buffer):
        torch.from_dlpack(out)[...] = torch.from_dlpack(buffer) * 2
        torch.from_dlpack(out).add_(1)

    for dtype in (jnp.float32, jnp.bfloat16):
        out, _ = inside(use, jnp.arange(3).astype(dtype))
        assert out.tolist() == [1, 3, 5]


def test_arrays_kept_by_a_failed_callback_are_cleared_or_reported():
    def fails(out, buffer):
        try:
            view = np.asarray(buffer)
            raise KeyError(f"inner {view.shape}")
        except KeyError as error:
            try:
                raise TypeError("context")
            except TypeError:
                raise ExceptionGroup("all", [error]) from None

    with pytest.raises(ExceptionGroup):
        inside(fails, jnp.arange(3.0))
    kept = []

    def keeps(out, buffer):
        kept.append(np.asarray(buffer))
        raise ValueError("and more")

    with pytest.raises(Exception, match=r"(?s)and more.*Besides, it kept an array"):
        jax.jit(buffer_callback(lambda ctx, out, x: keeps(out, x), F3))(jnp.arange(3.0)).block_until_ready()
    kept.clear()


def test_column_major_views_are_refused():
    def use(out, buffer):
        with pytest.raises(BufferError, match="row-major"):
            ctypes.pythonapi.PyObject_GetBuffer(
                ctypes.py_object(buffer), ctypes.create_string_buffer(200), ctypes.c_int(0x40 | 0x10 | 0x08)
            )

    inside(use, jnp.ones((2, 3)))
