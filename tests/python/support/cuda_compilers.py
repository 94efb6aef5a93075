# SPDX-License-Identifier: Apache-2.0
"""Requirements and kernels of tests that compile CUDA C++."""

import pytest
from callout import cuda
from callout._native.gpu.nvcc import find_nvcc
from callout._native.gpu.nvrtc import find_nvrtc

SCALE = """extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
"""

# Launches one thread for each element.
EACH = {"launch_dims": lambda x, *_: x.size, "constants": {"n": lambda x, *_: x.size}}


def require_nvcc() -> None:
    """Skips a test without nvcc."""
    try:
        find_nvcc(None, ())
    except cuda.CompileError as error:
        pytest.skip(str(error))


def require_nvrtc() -> None:
    """Skips a module's tests without NVRTC."""
    try:
        find_nvrtc()
    except cuda.CompileError as error:
        pytest.skip(str(error), allow_module_level=True)
