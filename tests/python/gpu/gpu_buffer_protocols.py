# SPDX-License-Identifier: Apache-2.0
"""Tests the protocols and the end of a Buffer on CUDA. test_gpu_buffers.py runs this file on the driver's double."""

import ctypes

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import buffer_callback
from double_memory import address, copy, driver
from gpu_double import calls, fail

PLAIN = ["bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))]
PLAIN += ["float16", "float32", "float64", "complex64", "complex128"]


def inside(use, x, *, device=0):
    """Calls `use(ctx, out, x)` in a program on a device, and returns the value that `use` returned."""
    returned, like = [], jax.ShapeDtypeStruct(x.shape, x.dtype)

    def callback(ctx, out, buffer):
        returned.append(use(ctx, out, buffer))

    with callout.reraise():
        x = jax.device_put(x, jax.devices()[device])
        jax.block_until_ready(jax.jit(buffer_callback(callback, like, has_side_effect=True))(x))
    return returned[0]


@pytest.mark.parametrize("dtype", PLAIN)
def test_cuda_array_interface(dtype):
    with jax.enable_x64(True):
        x = jnp.ones((2, 3), dtype)
        (stream, argument), result = inside(
            lambda ctx, out, x: ((ctx.stream, x.__cuda_array_interface__), out.__cuda_array_interface__), x
        )
    for interface, read_only in ((argument, True), (result, False)):
        where, is_read_only = interface.pop("data")
        assert (where > 0, is_read_only) == (True, read_only)
        assert interface == {
            "shape": (2, 3),
            "typestr": np.dtype(dtype).str,
            "strides": None,
            "version": 3,
            "stream": stream,
        }


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalars_and_empty_arrays(shape):
    interface = inside(lambda ctx, out, x: x.__cuda_array_interface__, jnp.ones(shape))
    assert interface["shape"] == shape
    assert (interface["data"][0] == 0) == (0 in shape)


def test_bfloat16_is_two_raw_bytes_as_with_jax():
    interface = inside(lambda ctx, out, x: x.__cuda_array_interface__, jnp.ones(3, "bfloat16"))
    assert (interface["typestr"], interface["shape"]) == ("<V2", (3,))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_only_dlpack_has(dtype):
    def use(ctx, out, x):
        assert not hasattr(x, "__cuda_array_interface__")
        with pytest.raises(AttributeError, match=f"has no dtype {dtype}; DLPack has it"):
            x.__cuda_array_interface__  # noqa: B018
        return repr(x.__dlpack__(max_version=(1, 0), stream=-1))

    assert "dltensor_versioned" in inside(use, jnp.ones(3, dtype))


@pytest.mark.devices(2)
def test_the_host_is_refused_by_name():
    def use(ctx, out, x):
        for read in (np.asarray, np.array, lambda b: b.__array__(copy=True), lambda b: np.add(b, 1)):
            with pytest.raises(
                TypeError, match=r"memory of CUDA device 1, which NumPy cannot read\. torch\.from_dlpack"
            ):
                read(x)
        for read in (memoryview, bytes):
            with pytest.raises((BufferError, TypeError), match="memory of CUDA device 1"):
                read(x)
        with pytest.raises((BufferError, RuntimeError, ValueError, TypeError)):
            np.from_dlpack(x)
        return (repr(x), repr(out), x.__dlpack_device__(), len(x), x.shape, x.dtype, x.nbytes, x.writeable)

    assert inside(use, jnp.ones(3), device=1) == (
        "<callout Buffer f32[3] on CUDA device 1, read-only>",
        "<callout Buffer f32[3] on CUDA device 1>",
        (2, 1),
        3,
        (3,),
        np.float32,
        12,
        False,
    )


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def _managed(capsule, name, kind):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(get(capsule, name))


@pytest.mark.devices(2)
def test_capsules_have_the_fields_that_consumers_expect():
    def use(ctx, out, x):
        capsule = x.__dlpack__(max_version=(1, 1), stream=ctx.stream, dl_device=(2, 1), copy=False)
        held = _managed(capsule, b"dltensor_versioned", _Versioned)
        tensor = held.tensor
        assert (held.major, held.flags) == (1, 1)  # read-only
        assert (tensor.data, tensor.device_type, tensor.device_id) == (address(x), 2, 1)
        assert (tensor.ndim, tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 2, 32, 1, 0)
        assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
        old = out.__dlpack__(stream=-1)
        assert _managed(old, b"dltensor", _Tensor).data == address(out)
        assert _managed(out.__dlpack__(max_version=(1, 0), stream=-1), b"dltensor_versioned", _Versioned).flags == 0

    inside(use, jnp.ones((2, 3)), device=1)


def test_a_consumers_stream_waits_for_xlas():
    def use(ctx, out, x):
        other = ctypes.c_void_p()
        driver("cuStreamCreate", ctypes.byref(other), 1)
        waits = []
        for stream in (ctx.stream, -1, other.value, None, 1):
            before = calls("cuStreamWaitEvent")
            x.__dlpack__(stream=stream)
            waits.append(calls("cuStreamWaitEvent") - before)
        for stream in (0, -2):
            with pytest.raises(BufferError, match=f"stream={stream}"):
                x.__dlpack__(stream=stream)
        with pytest.raises(TypeError):
            x.__dlpack__(stream="main")
        return waits

    assert inside(use, jnp.ones(3)) == [0, 0, 1, 1, 1]
    made = [calls("cuEventCreate"), calls("cuDevicePrimaryCtxRetain")]
    assert inside(use, jnp.ones(3)) == [0, 0, 1, 1, 1]
    retained = 1  # retained by the new call site
    assert [calls("cuEventCreate"), calls("cuDevicePrimaryCtxRetain") - retained] == made


@pytest.mark.devices(2)
def test_unsupported_dlpack_requests_are_rejected():
    def use(ctx, out, x):
        with pytest.raises(BufferError, match="is not copied; copy what is made of it"):
            x.__dlpack__(copy=True)
        for device in ((1, 0), (2, 0), (10, 0)):
            with pytest.raises(BufferError, match=r"memory of CUDA device 1, and is not copied to device"):
                x.__dlpack__(dl_device=device)
        fail("cuEventRecord", 1, 2)
        with pytest.raises(BufferError, match=r"cuEventRecord.*CUDA_ERROR_OUT_OF_MEMORY"):
            x.__dlpack__(stream=1)

    inside(use, jnp.ones(3), device=1)


class Wrapped:
    """Stands for another library's array over a buffer: the array keeps the buffer alive."""

    def __init__(self, buffer):
        self.interface, self.owner = buffer.__cuda_array_interface__, buffer


KEPT = {
    "interface": Wrapped,
    "dlpack": lambda buffer: buffer.__dlpack__(stream=-1),
    "dlpack 1": lambda buffer: buffer.__dlpack__(stream=-1, max_version=(1, 0)),
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("way", KEPT)
def test_arrays_that_outlive_the_call_fail_by_name(way, which):
    kept = []

    def use(ctx, *buffers):
        kept.append(KEPT[way](buffers[which]))

    name = ("result 0", "argument 0")[which]
    with pytest.raises(callout.CallbackError, match=rf"kept an array, .* of {name} beyond .*x\.clone\(\) of PyTorch"):
        inside(use, jnp.ones(3))
    kept.clear()


@pytest.mark.parametrize("way", KEPT)
def test_references_that_end_with_the_call_are_allowed(way):
    def use(ctx, out, x):
        cycle = [KEPT[way](x), KEPT[way](out)]
        cycle.append(cycle)
        copy(ctx, out, x)

    inside(use, jnp.ones(3))


def test_a_buffer_alone_may_be_kept_and_is_dead():
    kept = []
    inside(lambda ctx, out, x: kept.append(x), jnp.ones(3))
    for use in (
        lambda b: b.__cuda_array_interface__,
        lambda b: b.__dlpack__(),
        lambda b: b.__dlpack_device__(),
        np.asarray,
        memoryview,
        lambda b: b.shape,
    ):
        with pytest.raises(ValueError, match="belongs to a call that is over"):
            use(kept[0])
    assert repr(kept[0]) == "<callout Buffer of a call that is over>"
    kept.clear()
