// SPDX-License-Identifier: Apache-2.0
//
// Reads the kernels that cubins declare. Cubins hold code for GPUs; here only the kernels' names and parameters are
// used.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "driver/cuda_types.h"

namespace callout::software_gpu {

struct GpuKernel {
  std::string name;
  std::vector<size_t> parameter_bytes;
};

/// Sets `text` to the PTX text, or to the newest fitting PTX in a fat binary. Sets it to "" for other images.
CUresult FindPtx(const void* image, std::string* text, std::string* problem);

/// True for an image that a GPU's driver would accept: a cubin, or PTX.
bool IsGpuImage(const void* image);

/// Returns the kernels of a cubin; none for PTX.
std::vector<GpuKernel> KernelsOf(const void* image);

}  // namespace callout::software_gpu
