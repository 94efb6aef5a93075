// SPDX-License-Identifier: Apache-2.0
#include "array.h"

#include <cstdlib>

#include "callout/elements.h"
#include "callout/text.h"
#include "core/base/cat.h"

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

std::string Listed(const std::vector<pjrt::ArrayType>& types) {
  return internal::Cat("(", internal::Join(types, ", ", &pjrt::ArrayType::ToString), ")");
}

Array MakeArray(pjrt::ArrayType type) {
  size_t bytes = ElementSize(type.dtype);
  for (const int64_t extent : type.dims) bytes *= static_cast<size_t>(extent);
  return {std::move(type), std::vector<std::byte>(bytes)};
}

namespace {

// Returns a view of the array. Sub-byte elements are packed into `bytes`. Borrowed: valid as long as both.
callout_buffer AsBuffer(const Array& array, std::vector<std::byte>& bytes) {
  callout_buffer buffer = {};
  buffer.dtype = static_cast<uint32_t>(array.type.dtype);
  buffer.rank = static_cast<uint32_t>(array.type.dims.size());
  buffer.dims = array.type.dims.data();
  bytes = array.bytes;
  if (IsSubByte(array.type.dtype)) {
    const auto elements = static_cast<int64_t>(array.bytes.size());
    Pack(array.type.dtype, reinterpret_cast<const uint8_t*>(array.bytes.data()), elements, bytes.data());
    bytes.resize(PackedBytes(array.type.dtype, elements));
  }
  buffer.data = bytes.data();
  buffer.size_bytes = bytes.size();
  return buffer;
}

}  // namespace

void AppendJson(const Array& array, std::string& text) {
  std::vector<std::byte> bytes;
  // No Array has elements that AppendJson rejects.
  if (!callout::AppendJson(AsBuffer(array, bytes), text).ok()) std::abort();
}

std::string ToText(const Array& array) {
  std::vector<std::byte> bytes;
  const Result<std::string> text = ArrayText(AsBuffer(array, bytes));
  if (!text.ok()) std::abort();  // No Array has elements that ArrayText rejects.
  return *text;
}

}  // namespace callout::tools
