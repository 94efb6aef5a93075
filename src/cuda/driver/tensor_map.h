// SPDX-License-Identifier: Apache-2.0
//
// Parameters by which a kernel's tensor memory accelerator copies boxes of an array.
#pragma once

#include <array>
#include <cstdint>

#include "callout/export.h"
#include "cuda/driver/device.h"

namespace callout::internal::cuda {

/// What is asked of cuTensorMapEncodeTiled besides the address, in its order: the fastest axis first.
struct TensorMapShape {
  static constexpr uint32_t kMostAxes = 5;

  int type = 0;  ///< CUtensorMapDataType
  uint32_t rank = 1;
  std::array<uint64_t, kMostAxes> dims{};
  std::array<uint64_t, kMostAxes> strides{};  ///< Bytes, from the second axis on.
  std::array<uint32_t, kMostAxes> box{};
  std::array<uint32_t, kMostAxes> element_strides{};
  int interleave = 0;
  int swizzle = 0;
  int promotion = 0;
  int fill = 0;
};

/// Makes `map` that of an array at `address`. It touches no memory of the device, and may be called while a stream is
/// captured. InvalidArgument if the shape or the address is not one that the accelerator has. Thread-safe.
CALLOUT_EXPORT Status EncodeTensorMap(const Device& device, const TensorMapShape& shape, CUdeviceptr address,
                                      std::string_view name, CUtensorMap& map);

}  // namespace callout::internal::cuda
