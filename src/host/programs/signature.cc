// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/signature.h"

namespace callout::pjrt {

ArrayType ProgramArray::WholeType() const {
  ArrayType whole = type;
  for (size_t i = 0; i < whole.dims.size(); ++i) whole.dims[i] *= sharding.tiles[i];
  return whole;
}

}  // namespace callout::pjrt
