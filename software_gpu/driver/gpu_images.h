// SPDX-License-Identifier: Apache-2.0
//
// What cubins say of their kernels. Their code is for GPUs; here it only has a name and parameters.
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

/// The text of PTX, or the PTX in a fat binary, the newest that fits. Empty for other images.
CUresult FindPtx(const void* image, std::string* text, std::string* problem);

/// True for what a GPU's driver would take: a cubin, or PTX.
bool IsGpuImage(const void* image);

/// Kernels of a cubin; none of PTX.
std::vector<GpuKernel> KernelsOf(const void* image);

}  // namespace callout::software_gpu
