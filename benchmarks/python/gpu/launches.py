# SPDX-License-Identifier: Apache-2.0
"""Checks special launches on a GPU: cooperative grids, clusters, overlap, priority, tensor maps."""

from __future__ import annotations

import functools
from typing import Any

from rows import ON_SOFTWARE, Group, NotRunError, expect, gpu

GROUP = Group("launches")

SOURCE = """
#include <cooperative_groups.h>
extern "C" __global__ void blocks(float* counts) {
  if (threadIdx.x == 0) counts[blockIdx.x] = 1;
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += counts[i];
    counts[gridDim.x] = sum;
  }
}
"""

DEPENDENT_SOURCE = """
extern "C" __global__ void twice_behind(const float* x, float* y, int n) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
  asm volatile("griddepcontrol.launch_dependents;");
}
"""

CLUSTER_SOURCE = """
#include <cooperative_groups.h>
extern "C" __global__ void neighbours(float* y) {
  __shared__ float own;
  auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) own = blockIdx.x;
  cluster.sync();
  if (threadIdx.x == 0) {
    y[blockIdx.x] = *cluster.map_shared_rank(&own, (cluster.block_rank() + 1) % cluster.num_blocks());
  }
  cluster.sync();
}
"""

# CUtensorMap is declared here, because cuda.h may be missing beside NVRTC.
TENSOR_MAP_SOURCE = """
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
constexpr int kRows = 16, kColumns = 32, kBytes = 4 * kRows * kColumns;

extern "C" __global__ void tile_at(float* out, const __grid_constant__ CUtensorMap map, int column, int row) {
  __shared__ alignas(128) float tile[kRows * kColumns];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned to = __cvta_generic_to_shared(tile), arrived = __cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(kBytes) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(arrived)
        : "memory");
  }
  __syncthreads();
  asm volatile(
      "{.reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @!done bra again;}" ::"r"(arrived)
      : "memory");
  for (int i = threadIdx.x; i < kRows * kColumns; i += blockDim.x) out[i] = tile[i];
}
"""


@functools.cache
def _module(source: str, oldest: int = 0) -> Any:
    """Compiles for this machine's device, which must have at least the compute capability `oldest` (90 is 9.0)."""
    import callout

    capability = int(gpu().compute_capability.replace(".", ""))
    if capability < oldest:
        raise NotRunError(f"needs hardware of compute capability {oldest / 10}, this is {capability / 10}")
    return callout.cuda.load_inline(source, name="gpu_check_launches")


def _hardware(what: str) -> None:
    if ON_SOFTWARE:
        raise NotRunError(f"{what}: needs hardware")


@GROUP.row("a cooperative grid has the blocks that run at once")
def cooperative_grid() -> str:
    import jax

    most = 1 << 16
    kernel = _module(SOURCE).blocks.options(grid="cooperative", block=256, input_output_aliases={0: 0})
    counts = jax.jit(kernel)(jax.numpy.zeros(most, "float32", device=gpu()))
    blocks = int(counts.max())  # the sum is behind the values of the blocks
    expect("what each block wrote", [*[1] * blocks, blocks, 0], counts[: blocks + 2])
    return f"{blocks} blocks of 256 threads"


@GROUP.row("dependent launches with a priority, in a program and captured")
def dependent() -> str:
    import jax

    kernel = _module(DEPENDENT_SOURCE, 90).twice_behind.options(
        launch_dims=lambda x, y: x.size, constants={"n": lambda x, y: x.size}, dependent_launch=True, priority=-1
    )

    @jax.jit
    def program(x: Any) -> Any:
        for _ in range(8):
            x = kernel(x)
        return x + 1

    for i in range(10):
        x = jax.numpy.arange(10_000, dtype="float32", device=gpu()) + i
        expect(f"run {i}", 256 * x + 1, program(x))
    return "10 runs of 8 kernels"


@GROUP.row("blocks of a cluster read each other's shared memory")
def clusters() -> str:
    import jax

    _hardware("clusters of blocks")
    kernel = _module(CLUSTER_SOURCE, 90).neighbours
    for size in (2, 4, 8):
        told = kernel.options(out=jax.ShapeDtypeStruct((16,), "float32"), grid=16, block=32, cluster=size)
        expect(f"of {size}", [i // size * size + (i + 1) % size for i in range(16)], jax.jit(told)())
    return "of 2, 4 and 8 blocks"


@GROUP.row("the tensor memory accelerator copies a box, and zeros beyond the array")
def tensor_map() -> str:
    import jax
    import numpy as np

    _hardware("copies by tensor maps")
    kernel = _module(TENSOR_MAP_SOURCE, 90).tile_at.options(
        tensor_maps={"map": {"argument": 0, "box": (16, 32)}},
        out=jax.ShapeDtypeStruct((16, 32), "float32"),
        grid=1,
        block=128,
    )
    x = np.arange(40 * 64, dtype=np.float32).reshape(40, 64) + 1
    padded = np.pad(x, ((0, 16), (0, 32)))
    for row, column in ((0, 0), (8, 4), (30, 40)):
        got = jax.jit(lambda x, r=row, c=column: kernel(x, row=r, column=c))(jax.device_put(x, gpu()))
        expect(f"the box at {row}, {column}", padded[row : row + 16, column : column + 32], got)
    return "3 boxes of 16 x 32 floats"
