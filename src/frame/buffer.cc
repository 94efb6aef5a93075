// SPDX-License-Identifier: Apache-2.0
#include "frame/buffer.h"

#include "callout/dtype.h"

namespace callout::internal {

std::string ShapeString(const callout_buffer& buffer) {
  std::string text(ShortName(static_cast<DType>(buffer.dtype)));
  text += '[';
  for (uint32_t i = 0; i < buffer.rank; ++i) {
    if (i > 0) text += ',';
    text += std::to_string(buffer.dims[i]);
  }
  text += ']';
  return text;
}

}  // namespace callout::internal
