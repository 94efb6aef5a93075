# SPDX-License-Identifier: Apache-2.0
"""The kernels that the rows use."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from rows import ON_SOFTWARE, NotRunError, expect, gpu

SOURCE = """
extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
extern "C" __global__ void nothing(const float* x, float* y) {}
extern "C" __global__ void sum_shared(const float* x, float* y, int n) {
  extern __shared__ float part[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) part[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += part[i];
    y[0] = sum;
  }
}
extern "C" __global__ void flip(const bool* x, bool* y) { y[threadIdx.x] = !x[threadIdx.x]; }
extern "C" __global__ void out_of_bounds(const float* x, float* y) { y[1ull << 40] = x[0]; }
"""

HOST_SOURCE = """
#include "callout/kernel.h"
__global__ void add(const float* x, const float* y, float* sum, int64_t n) {
  int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) sum[i] = x[i] + y[i];
}
callout::Error four_times(callout::In<float> x, callout::Stream stream, callout::Out<float> y, callout::Out<float> twice) {
  const unsigned blocks = (x.size() + 255) / 256;
  add<<<blocks, 256, 0, stream>>>(x.data(), x.data(), twice.data(), x.size());
  add<<<blocks, 256, 0, stream>>>(twice.data(), twice.data(), y.data(), x.size());
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? callout::Error() : callout::Error(cudaGetErrorString(error));
}
CALLOUT_KERNEL(four_times);
"""


@functools.cache
def module() -> Any:
    """Compiles the kernels for this machine's device."""
    import callout

    gpu()
    return callout.cuda.load_inline(SOURCE, name="gpu_check")


@functools.cache
def four_times() -> Any:
    """Returns a host function of two kernels, built by nvcc: x -> 4 x."""
    import callout

    gpu()
    if ON_SOFTWARE:
        raise NotRunError("what nvcc links is machine code: needs hardware")
    try:
        built = callout.cuda.load_host(HOST_SOURCE, name="gpu_check_host")
    except callout.cuda.CompileError as error:
        if "no nvcc" in str(error):
            raise NotRunError(str(error)) from error
        raise
    return built.four_times.options(out=lambda x: x, scratch=lambda x: x)


def flip() -> Any:
    """Returns a kernel of one block: x -> not x."""
    return module().flip


def copy_on_device(stream: int, out: Any, x: Any) -> None:
    """Queues a copy between buffers of a callback."""
    copy = ctypes.CDLL(os.environ.get("CALLOUT_CUDA_DRIVER") or "libcuda.so.1").cuMemcpyDtoDAsync_v2
    to, source = (ctypes.c_uint64(buffer.__cuda_array_interface__["data"][0]) for buffer in (out, x))
    expect("cuMemcpyDtoDAsync", 0, copy(to, source, ctypes.c_size_t(x.nbytes), ctypes.c_void_p(stream)))


def scale(factor: float) -> Any:
    """Returns a kernel: x -> factor * x."""
    kernel = module().scale.options(launch_dims=lambda x, y: x.size, constants={"n": lambda x, y: x.size})
    return functools.partial(kernel, factor=factor)
