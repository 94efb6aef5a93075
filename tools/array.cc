// SPDX-License-Identifier: Apache-2.0
#include "array.h"

#include "frame/subbyte.h"
#include "sinks/numpy_text.h"
#include "sinks/text.h"

namespace callout::tools {

size_t ElementSize(DType dtype) { return static_cast<size_t>((BitWidth(dtype) + 7) / 8); }

Result<int64_t> ElementCount(const pjrt::ArrayType& type) {
  constexpr int64_t kMaxBytes = int64_t{1} << 46;
  int64_t elements = 1;
  bool is_empty = false;
  for (const int64_t extent : type.dims) {
    is_empty = is_empty || extent == 0;
    if (extent < 0 || (extent > 0 && elements > kMaxBytes / 16 / extent)) {
      return InvalidArgument("callout: an array cannot be " + type.ToString());
    }
    if (extent > 0) elements *= extent;
  }
  return is_empty ? 0 : elements;
}

std::string ToText(const Array& array) {
  constexpr float kFloat32ExponentsFrom = 1e6F;  // NumPy 2.3 and later
  callout_buffer buffer = {};
  buffer.dtype = static_cast<uint32_t>(array.type.dtype);
  buffer.rank = static_cast<uint32_t>(array.type.dims.size());
  buffer.dims = array.type.dims.data();
  std::vector<std::byte> bytes = array.bytes;
  if (internal::IsSubByte(array.type.dtype)) {
    const auto elements = static_cast<int64_t>(array.bytes.size());
    internal::Pack(array.type.dtype, reinterpret_cast<const uint8_t*>(array.bytes.data()), elements, bytes.data());
    bytes.resize(PackedBytes(array.type.dtype, elements));
  }
  buffer.data = bytes.data();
  buffer.size_bytes = bytes.size();
  std::string text;
  if (!internal::AppendNumpyText(buffer, {.float32_exponents_from = kFloat32ExponentsFrom}, text)) {
    internal::AppendArray(buffer, internal::TextStyle::kPrint, text);
  }
  return text;
}

}  // namespace callout::tools
