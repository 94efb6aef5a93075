# SPDX-License-Identifier: Apache-2.0
"""The kernels of the rows."""

from __future__ import annotations

import functools
from typing import Any

from rows import gpu

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
extern "C" __global__ void out_of_bounds(const float* x, float* y) { y[1ull << 40] = x[0]; }
"""


@functools.cache
def module() -> Any:
    """Compiled for this machine's device."""
    import callout

    gpu()
    return callout.cuda.load_inline(SOURCE, name="gpu_check")


def scale(factor: float) -> Any:
    """x -> factor * x."""
    import functools

    kernel = module().scale.options(launch_dims=lambda x, y: x.size, constants={"n": lambda x, y: x.size})
    return functools.partial(kernel, factor=factor)
