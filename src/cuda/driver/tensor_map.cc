// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/tensor_map.h"

#include <string>

namespace callout::internal::cuda {

Status EncodeTensorMap(const Device& device, const TensorMapShape& shape, CUdeviceptr address, std::string_view name,
                       CUtensorMap& map) {
  const CUresult result = device.driver().TensorMapEncodeTiled(
      &map, shape.type, shape.rank, reinterpret_cast<void*>(address), shape.dims.data(), shape.strides.data(),
      shape.box.data(), shape.element_strides.data(), shape.interleave, shape.swizzle, shape.promotion, shape.fill);
  if (result == CUDA_SUCCESS) [[likely]]
    return OkStatus();
  return device.Check(result, "cuTensorMapEncodeTiled", "'" + std::string(name) + "'");
}

}  // namespace callout::internal::cuda
