// SPDX-License-Identifier: Apache-2.0
//
// The content of a CUtensorMap here: the arguments of which it was made. Only the driver knows a GPU's own layout.
#pragma once

#include <cstdint>

namespace callout::software_gpu {

struct TensorMapLayout {
  uint64_t address;
  uint8_t type;
  uint8_t rank;
  uint8_t interleave;
  uint8_t swizzle;
  uint8_t promotion;
  uint8_t fill;
  uint64_t dims[5];
  uint64_t strides[4];
  uint16_t box[5];
  uint8_t element_strides[5];
};
static_assert(sizeof(TensorMapLayout) <= 128);

}  // namespace callout::software_gpu
