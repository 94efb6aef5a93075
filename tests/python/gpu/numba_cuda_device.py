# SPDX-License-Identifier: Apache-2.0
"""Tests Numba compiling for a device. test_numba_cuda_device.py runs this file on the double of the driver."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._native.gpu import images, numba_image
from callout._native.gpu.numba_compiler import ArrayType, NumberType
from callout._native.gpu.numba_image import compiled, compiler_of
from callout.numba_cuda import numba_cuda_kernel
from gpu_double import gpu_double  # noqa: F401
from numba_on_host import numba_on_host  # noqa: F401

F32 = np.dtype(np.float32)
PARAMETERS = [ArrayType(F32, 1, False), ArrayType(F32, 1, True)]


def same(x, *_, **__):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.fixture
def copy(cuda):
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    return copy


def test_the_double_is_a_device(copy):
    assert compiler_of(copy).has_device()


def test_images_are_for_the_device_and_come_with_ptx(copy):
    image = compiled("test", copy, PARAMETERS).image
    assert images.kind_of(image.code) == "cubin"
    assert images.kind_of(image.portable) == "ptx"
    assert b".target sm_90\n" in image.portable  # not sm_90a, whose code runs on no other architecture
    assert images.parameter_sizes(image.code)[image.symbol] == images.parameter_sizes(image.portable)[image.symbol]


def test_the_kernel_keeps_its_compiled_code(copy):
    code = compiled("test", copy, PARAMETERS)
    (types,) = copy.overloads
    assert len(types) == 2
    assert copy.compile(types) is copy.overloads[types]
    assert len(copy.overloads) == 1
    assert code is compiled("test", copy, PARAMETERS)


@pytest.mark.usefixtures("numba_on_host")
def test_kernels_with_signatures(cuda):
    @cuda.jit("void(float32[:], float32[:], float32, int32)")
    def scale(x, out, by, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = by * x[i]

    call = numba_cuda_kernel(scale, same, grid=1, block=4)
    x = jnp.arange(4, dtype=jnp.float32)
    assert jax.jit(lambda x: call(x, by=2.5, n=4))(x).tolist() == [0, 2.5, 5, 7.5]
    (code,) = numba_image._codes[scale].values()
    assert code.numbers == (None, None, np.dtype(np.float32), np.dtype(np.int32))
    with pytest.raises(TypeError, match="constant 'n' is 4294967300, which the kernel takes as int32"):
        call(x, by=2.5, n=4 + 2**32)
    with pytest.raises(TypeError, match=r"numba_cuda 'scale': the kernel was compiled for .* only, not"):
        call(x.astype(jnp.int32), by=2.5, n=4)
    with pytest.raises(TypeError, match=r"numba_cuda 'scale': the kernel was compiled for .* only, not"):
        call(x, by=2.5, n=4.0)


@pytest.mark.usefixtures("numba_on_host")
def test_debug_kernels_and_device_functions(cuda):
    @cuda.jit(device=True, debug=True, opt=False)
    def twice(x):
        return 2 * x

    @cuda.jit(debug=True, opt=False)
    def checked(x, out):
        i = cuda.grid(1)
        if x[i] < 0:
            raise ValueError("negative")
        out[i] = twice(x[i])

    run = jax.jit(numba_cuda_kernel(checked, same, grid=1, block=2))
    assert run(jnp.ones(2, jnp.float32)).tolist() == [2, 2]
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="ValueError: "):
        run(-jnp.ones(2, jnp.float32)).block_until_ready()


def test_programs_embed_the_devices_image_and_exports_ptx(copy):
    call = numba_cuda_kernel(copy, same, launch_dims=4)
    x = jax.ShapeDtypeStruct((4,), jnp.float32)
    traced = jax.jit(call).trace(x)
    text = str(traced.lower(lowering_platforms=("cuda",)).compiler_ir())
    assert "7FELF" in text
    exported = callout.export(jax.jit(call), platforms=["cuda"])(x)
    assert ".target sm_90" in str(exported.mlir_module())


def test_numbers_are_compiled_as_they_come(cuda):
    @cuda.jit
    def number(n, out):
        out[0] = n

    code = compiled("test", number, [NumberType(np.dtype(np.int16)), ArrayType(F32, 1, True)])
    assert code.numbers == (np.dtype(np.int16), None)
