# SPDX-License-Identifier: Apache-2.0
"""Checks launches beyond the usual limits: of shared memory, by several call sites, and of parameters."""

from __future__ import annotations

import functools
from typing import Any

import sources
from rows import Group, WrongError, expect, gpu

GROUP = Group("limits")
_FIXED = 5 << 10  # floats of static shared memory: 20 KB
_LARGE = 1250  # floats of a parameter: 5000 bytes

SOURCE = """
extern "C" __global__ void sum_both(const float* x, float* y, int n) {
  __shared__ float fixed[FIXED];
  extern __shared__ float part[];
  for (int i = threadIdx.x; i < FIXED; i += blockDim.x) fixed[i] = x[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) part[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < FIXED; ++i) sum += fixed[i];
    for (int i = 0; i < n; ++i) sum += part[i];
    y[0] = sum;
  }
}
struct Large { float values[LARGE]; };
extern "C" __global__ void add_large(const float* x, float* y, Large large, float last) {
  for (int i = threadIdx.x; i < LARGE; i += blockDim.x) y[i] = x[i] + large.values[i] + last;
}
"""


@functools.cache
def _module() -> Any:
    import callout

    gpu()
    source = SOURCE.replace("FIXED", str(_FIXED)).replace("LARGE", str(_LARGE))
    return callout.cuda.load_inline(source, name="gpu_check_limits")


def _sum(kilobytes: int, kernel: Any = None) -> Any:
    """Returns a call site of a kernel that sums as many floats as fit into so many kilobytes of dynamic shared memory."""
    import jax

    n = kilobytes * 256
    shape = jax.ShapeDtypeStruct((1,), "float32")
    settings = {"out": shape, "grid": 1, "block": 256, "shared_mem": 4 * n, "constants": {"n": n}}
    return (kernel or sources.module().sum_shared).options(**settings)


@GROUP.row("call sites of one kernel with 100, 64 and 100 KB of shared memory")
def two_sites() -> str:
    import jax

    sizes = (100, 64, 100)
    x = jax.numpy.ones(100 * 256, "float32", device=gpu())
    sites = [jax.jit(_sum(size)) for size in sizes]
    for round_ in range(2):
        for site, size in zip(sites, sizes, strict=True):
            expect(f"{size} KB, round {round_}", [size * 256], site(x))
    program = jax.jit(lambda x: [_sum(size)(x) for size in sizes])
    expect("in one program", [[size * 256] for size in sizes], program(x))
    return ""


@GROUP.row("20 KB of static and 40 KB of dynamic shared memory")
def static_and_dynamic() -> str:
    import jax

    x = jax.numpy.ones(40 * 256, "float32", device=gpu())
    expect("sum", [_FIXED + 40 * 256], jax.jit(_sum(40, _module().sum_both))(x))
    return ""


@GROUP.row("more shared memory than a device has fails the program")
def too_much() -> str:
    import jax

    x = jax.numpy.ones(300 * 256, "float32", device=gpu())
    try:
        jax.block_until_ready(jax.jit(_sum(300))(x))
    except Exception as error:
        if "'sum_shared'" not in str(error) or "shared memory" not in str(error):
            raise WrongError(f"expected the kernel's name and what it asks for, got {error}") from error
    else:
        raise WrongError("the program succeeded")
    expect("100 KB after it", [100 * 256], jax.jit(_sum(100))(x))
    return ""


@GROUP.row("5000 bytes of parameters by value")
def large_parameters() -> str:
    import jax
    import numpy as np

    x = jax.numpy.arange(_LARGE, dtype="float32", device=gpu())
    large = np.arange(_LARGE, dtype=np.float32)
    kernel = _module().add_large.options(grid=1, block=256)
    program = jax.jit(lambda x: kernel(x, large=large.tobytes(), last=0.5))
    expect("sum", 2 * large + 0.5, program(x))
    return f"{4 * _LARGE + 4 + 16} bytes with the addresses"
