// SPDX-License-Identifier: Apache-2.0
//
// The image of the library's one kernel. Addresses in a launch's parameters are accessible.
#include <cstring>

#include "driver/software_gpu.h"
#include "libraries/product.h"

namespace {

int MultiplyMatrices(const SoftwareGpuLaunch* /*launch*/, void** parameters) {
  callout::software_gpu::Product product;
  std::memcpy(&product, parameters[0], sizeof(product));
  callout::software_gpu::Compute(product);
  return 0;
}

constexpr size_t kParameterBytes[] = {sizeof(callout::software_gpu::Product)};
constexpr SoftwareGpuKernel kKernels[] = {{"multiply_matrices", &MultiplyMatrices, 1, kParameterBytes, 1, 0}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const SoftwareGpuImage software_gpu_image = {1, kKernels, 0, nullptr};
