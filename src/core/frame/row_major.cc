// SPDX-License-Identifier: Apache-2.0
#include "core/frame/row_major.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace callout::internal {

bool IsRowMajor(std::span<const int64_t> minor_to_major) {
  return std::is_sorted(minor_to_major.begin(), minor_to_major.end(), std::greater<>());
}

void CopyToRowMajor(const std::byte* from, std::span<const int64_t> dims, std::span<const int64_t> minor_to_major,
                    size_t size, std::byte* to) {
  std::vector<size_t> strides(dims.size());  // in `from`, by dimension
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
