// SPDX-License-Identifier: Apache-2.0
#include "core/frame/buffer.h"

#include <type_traits>

#include "core/frame/elements.h"

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

std::vector<int64_t> Unravel(int64_t flat, const callout_buffer& buffer) {
  std::vector<int64_t> index(buffer.rank);
  for (uint32_t axis = buffer.rank; axis-- > 0;) {
    index[axis] = flat % buffer.dims[axis];
    flat /= buffer.dims[axis];
  }
  return index;
}

std::string IndexString(std::span<const int64_t> index) {
  std::string text = "[";
  for (const int64_t number : index) text.append(text.size() > 1 ? "," : "").append(std::to_string(number));
  return text + "]";
}

namespace {

bool IsIntegerOfBytes(DType dtype) { return RowOf(dtype).is_integer() && RowOf(dtype).bits >= 8; }

}  // namespace

bool HasIntegers(const callout_buffer& buffer) {
  return buffer.size_bytes > 0 && IsIntegerOfBytes(static_cast<DType>(buffer.dtype));
}

std::optional<int64_t> FirstInteger(const callout_buffer& buffer) {
  std::optional<int64_t> first;
  if (!HasIntegers(buffer)) return first;
  (void)VisitElements(static_cast<DType>(buffer.dtype), [&](const auto& reader) {
    if constexpr (std::is_integral_v<decltype(reader(buffer.data, 0))>) {
      first = static_cast<int64_t>(reader(buffer.data, 0));
    }
  });
  return first;
}

}  // namespace callout::internal
