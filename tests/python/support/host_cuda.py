# SPDX-License-Identifier: Apache-2.0
"""Compiles CUDA C++ for this machine's CPU; the double of the driver runs the code instead of images for a GPU.

The threads of a launch run one after another, so kernels whose threads wait for each other are not supported.
"""

import ctypes
import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gpu_double import control

_INCLUDE = Path(__file__).parents[3]

_PRELUDE = """
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include "software_gpu/driver/software_gpu.h"
#define __global__
#define __device__
#define __restrict__
#define __launch_bounds__(...)
#define __grid_constant__
struct Place { unsigned x, y, z; };
static thread_local Place gridDim, blockDim, blockIdx, threadIdx;
static thread_local void* dynamic_shared;
static Place At(const unsigned (&axes)[3]) { return {axes[0], axes[1], axes[2]}; }
"""

# Unnamed: if libraries shared a name, all would get the first library's kernel.
_WRAPPERS = """
namespace {
template <typename... Parameters, size_t... kIndices>
void Call(void (*kernel)(Parameters...), void** parameters, std::index_sequence<kIndices...>) {
  kernel(*static_cast<Parameters*>(parameters[kIndices])...);
}
template <auto kKernel>
struct Wrapped;
template <typename... Parameters, void (*kKernel)(Parameters...)>
struct Wrapped<kKernel> {
  static constexpr size_t kBytes[] = {sizeof(Parameters)..., 0};
  static int Run(const SoftwareGpuLaunch* launch, void** parameters) {
    gridDim = At(launch->grid);
    blockDim = At(launch->block);
    blockIdx = At(launch->block_index);
    threadIdx = At(launch->thread_index);
    dynamic_shared = launch->shared;
    Call(kKernel, parameters, std::index_sequence_for<Parameters...>());
    return 0;
  }
  static SoftwareGpuKernel As(const char* name) { return {name, &Run, sizeof...(Parameters), kBytes, 0, 0}; }
};
}  // namespace
"""

_BIND = """
extern "C" void bind_kernels(void (*to)(const SoftwareGpuKernel*)) {
  const auto bind = [to](SoftwareGpuKernel kernel) { to(&kernel); };
"""


def bind(folder: Path, source: str, kernels: Mapping[str, str]) -> None:
    """Gives the double kernels for images that it cannot run: {symbol in the image: C++ name}."""
    calls = "".join(f'bind(Wrapped<&{kernel}>::As("{symbol}"));' for symbol, kernel in kernels.items())
    text = f'{_PRELUDE}#line 1 "kernels.cu"\n{source}\n{_WRAPPERS}{_BIND}{calls}\n}}\n'
    stem = hashlib.sha256(text.encode()).hexdigest()[:16]
    library = folder / f"{stem}.so"
    if not library.exists():
        (folder / f"{stem}.cc").write_text(text)
        command = ["c++", "-std=c++20", "-O0", "-w", "-fPIC", "-shared", f"-I{_INCLUDE}", str(folder / f"{stem}.cc")]
        subprocess.run([*command, "-o", str(library)], check=True)
    ctypes.CDLL(str(library)).bind_kernels(control().bind)
