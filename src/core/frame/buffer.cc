// SPDX-License-Identifier: Apache-2.0
#include "core/frame/buffer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "core/base/cat.h"
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

std::string IndexString(std::span<const int64_t> index) { return Cat("[", Join(index, ","), "]"); }

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

bool IsRowMajor(std::span<const int64_t> minor_to_major) {
  return std::is_sorted(minor_to_major.begin(), minor_to_major.end(), std::greater<>());
}

void CopyToRowMajor(const std::byte* from, std::span<const int64_t> dims, std::span<const int64_t> minor_to_major,
                    size_t size, std::byte* to) {
  std::vector<size_t> strides(dims.size());  // strides in `from`, by dimension
  size_t elements = 1;
  for (const int64_t dimension : minor_to_major) {
    strides[static_cast<size_t>(dimension)] = elements;
    elements *= static_cast<size_t>(dims[static_cast<size_t>(dimension)]);
  }
  std::vector<int64_t> index(dims.size(), 0);
  for (size_t element = 0; element < elements; ++element) {
    size_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) at += static_cast<size_t>(index[d]) * strides[d];
    std::memcpy(to + element * size, from + at * size, size);
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
  }
}

}  // namespace callout::internal
