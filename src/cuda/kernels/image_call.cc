// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/image_call.h"

#include <string_view>

namespace callout::internal {

Status ImageCall::Check() const {
  const auto wrong = [this](const std::string& what) {
    return InvalidArgument("callout: kernel '" + name + "': " + what);
  };
  if (bytes.empty()) return wrong("the program carries no image of it");
  if (symbol.empty()) return wrong("the program does not say what it is called in its image");
  const std::string_view names = "xyz";
  for (size_t axis = 0; axis < 3; ++axis) {
    const std::string of = std::string(1, names[axis]);
    if (shape.grid[axis] == 0) return wrong("grid." + of + " is 0");
    if (shape.block[axis] == 0) return wrong("block." + of + " is 0");
  }
  CALLOUT_RETURN_IF_ERROR(CheckCluster());
  size_t total = 0;
  for (const size_t size : parameter_bytes) total += size;
  if (total != parameter_block.size()) {
    return wrong("its parameters have " + std::to_string(total) + " bytes, attribute 'parameter_block' has " +
                 std::to_string(parameter_block.size()));
  }
  for (const AddressSlot& slot : addresses) {
    if (parameter_block.size() < sizeof(uint64_t) || slot.position > parameter_block.size() - sizeof(uint64_t)) {
      return wrong("an address is to go behind the end of its parameters, to byte " + std::to_string(slot.position) +
                   " of " + std::to_string(parameter_block.size()));
    }
  }
  for (const TensorMapSlot& slot : tensor_maps) {
    if (parameter_block.size() < sizeof(cuda::CUtensorMap) ||
        slot.position > parameter_block.size() - sizeof(cuda::CUtensorMap)) {
      return wrong("a tensor map is to go behind the end of its parameters, to byte " + std::to_string(slot.position) +
                   " of " + std::to_string(parameter_block.size()));
    }
    if (slot.shape.rank < 1 || slot.shape.rank > cuda::TensorMapShape::kMostAxes) {
      return wrong("a tensor map has 1 to 5 axes, got " + std::to_string(slot.shape.rank));
    }
  }
  return OkStatus();
}

// CUDA C++ Programming Guide, Thread Block Clusters.
Status ImageCall::CheckCluster() const {
  if (shape.cluster[0] == 0) return OkStatus();
  const auto wrong = [this](const std::string& what) {
    return InvalidArgument("callout: kernel '" + name + "': " + what);
  };
  if (fills_device) return wrong("a grid that fills the device has no clusters");
  for (size_t axis = 0; axis < 3; ++axis) {
    if (shape.grid[axis] % shape.cluster[axis] == 0) continue;
    return wrong(std::string("grid.") + "xyz"[axis] + " is " + std::to_string(shape.grid[axis]) +
                 ", and no multiple of the cluster's " + std::to_string(shape.cluster[axis]));
  }
  return OkStatus();
}

}  // namespace callout::internal
