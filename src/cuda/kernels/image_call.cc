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
  return OkStatus();
}

}  // namespace callout::internal
