# SPDX-License-Identifier: Apache-2.0
"""Compares the packed parameters of kernels of numba-cuda and numba-cuda-mlir with their images for sm_90."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._native.gpu import images
from callout._native.gpu.kernel import Parameters
from callout._native.gpu.numba_parameters import Array, MemrefAbi, NumbaAbi, pack
from numba_packages import kernel_for, require

require()

pytestmark = pytest.mark.usefixtures("without_gpu", "sm_90")

SHAPES = [(), (3,), (2, 3), (2, 1, 4), (1, 2, 3, 4)]
DTYPES = ["bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_arrays_are_packed_as_the_image_takes_them(cuda, shape):
    @cuda.jit
    def nothing(x, y, out):
        pass

    avals = [jax.ShapeDtypeStruct(shape, jnp.float32), jax.ShapeDtypeStruct((2, 2), jnp.int8)]
    kernel = kernel_for(nothing, avals, [avals[0]])
    sizes = images.parameter_sizes(kernel.image.code)[kernel.image.symbol]
    assert kernel.parameters.sizes == sizes
    assert set(sizes) == {8}


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_are_packed_alike(cuda, dtype):
    @cuda.jit
    def copy(x, out):
        i, j = cuda.grid(2)
        out[i, j] = x[i, j]

    with jax.enable_x64(True):
        aval = jax.ShapeDtypeStruct((2, 3), jnp.dtype(dtype))
        kernel = kernel_for(copy, [aval], [aval])
    assert kernel.parameters.sizes == images.parameter_sizes(kernel.image.code)[kernel.image.symbol]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_packed_as_the_image_takes_them(cuda, dtype):
    @cuda.jit
    def nothing(before, out, number, after):
        pass

    with jax.enable_x64(True):
        number = np.asarray(1, jnp.dtype(dtype))[()]
        aval = jax.ShapeDtypeStruct((1,), jnp.dtype(dtype))
        kernel = kernel_for(nothing, [], [aval], {"before": np.uint8(1), "number": number, "after": np.int64(7)})
    assert kernel.parameters.sizes == images.parameter_sizes(kernel.image.code)[kernel.image.symbol]


def words(abi, array):
    parameters = Parameters()
    pack(parameters, abi, [array])
    attributes = parameters.attributes()
    return np.frombuffer(attributes["parameter_block"], np.int64).tolist(), np.ravel(attributes["pointers"]).tolist()


def test_the_words_of_an_array():
    array = Array(5, (2, 3, 4), 8)
    assert words(NumbaAbi(), array) == ([0, 0, 24, 8, 0, 2, 3, 4, 96, 32, 8], [32, 5])
    assert words(MemrefAbi(), array) == ([0, 0, 0, 2, 3, 4, 12, 4, 1], [0, 5, 8, 5])
    assert words(NumbaAbi(), Array(0, (), 2)) == ([0, 0, 1, 2, 0], [32, 0])
    assert words(MemrefAbi(), Array(0, (), 2)) == ([0, 0, 0], [0, 0, 8, 0])


def test_images_that_take_other_parameters_are_refused(cuda, monkeypatch):
    @cuda.jit
    def copy(x, out):
        out[0] = x[0]

    monkeypatch.setattr(NumbaAbi, "add_array", MemrefAbi.add_array)
    monkeypatch.setattr(MemrefAbi, "add_array", lambda self, parameters, array: parameters.add(bytes(4)))
    aval = jax.ShapeDtypeStruct((3,), jnp.float32)
    with pytest.raises(TypeError, match=r"test: the image's kernel .* has parameters of"):
        kernel_for(copy, [aval], [aval])
