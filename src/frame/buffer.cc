// SPDX-License-Identifier: Apache-2.0
#include "frame/buffer.h"

#include <cstring>

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

namespace {

template <typename T>
int64_t Load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return static_cast<int64_t>(value);
}

}  // namespace

bool HasIntegers(const callout_buffer& buffer) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  return buffer.size_bytes > 0 && dtype >= DType::kInt8 && dtype <= DType::kUint64;
}

std::optional<int64_t> FirstInteger(const callout_buffer& buffer) {
  if (buffer.size_bytes == 0) return std::nullopt;
  switch (static_cast<DType>(buffer.dtype)) {
    case DType::kInt8:
      return Load<int8_t>(buffer.data);
    case DType::kInt16:
      return Load<int16_t>(buffer.data);
    case DType::kInt32:
      return Load<int32_t>(buffer.data);
    case DType::kInt64:
      return Load<int64_t>(buffer.data);
    case DType::kUint8:
      return Load<uint8_t>(buffer.data);
    case DType::kUint16:
      return Load<uint16_t>(buffer.data);
    case DType::kUint32:
      return Load<uint32_t>(buffer.data);
    case DType::kUint64:
      return Load<uint64_t>(buffer.data);
    default:
      return std::nullopt;
  }
}

}  // namespace callout::internal
