// SPDX-License-Identifier: Apache-2.0
#include "shards.h"

#include <cstring>
#include <functional>
#include <utility>

namespace callout::tools {
namespace {

// Calls `copy` for each row (along the last dimension) of a device's part, with the row's position in the whole array,
// its position in the part, and its length, all in elements.
void ForEachRow(const pjrt::ProgramArray& array, size_t device,
                const std::function<void(size_t whole, size_t part, size_t length)>& copy) {
  const std::vector<int64_t>& dims = array.type.dims;
  const std::vector<int64_t>& part = array.sharding.parts[device];
  const std::vector<int64_t> whole_dims = array.WholeType().dims;
  size_t rows = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) rows *= static_cast<size_t>(dims[d]);
  const size_t length = dims.empty() ? 1 : static_cast<size_t>(dims.back());
  std::vector<int64_t> index(dims.size(), 0);
  for (size_t row = 0; row < rows; ++row) {
    size_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      at = at * static_cast<size_t>(whole_dims[d]) + static_cast<size_t>(part[d] * dims[d] + index[d]);
    }
    copy(at, row * length, length);
    for (size_t d = dims.size(); d-- > 1 && ++index[d - 1] == dims[d - 1];) index[d - 1] = 0;
  }
}

}  // namespace

Array ShardOf(const Array& whole, const pjrt::ProgramArray& array, size_t device) {
  if (whole.type == array.type) return whole;
  const size_t size = ElementSize(array.type.dtype);
  Array shard = MakeArray(array.type);
  ForEachRow(array, device, [&](size_t from, size_t to, size_t length) {
    if (length > 0) std::memcpy(&shard.bytes[to * size], &whole.bytes[from * size], length * size);
  });
  return shard;
}

Array Assemble(const std::vector<Array>& shards, const pjrt::ProgramArray& array) {
  if (array.WholeType() == array.type) return shards.front();
  const size_t size = ElementSize(array.type.dtype);
  Array whole = MakeArray(array.WholeType());
  for (size_t device = 0; device < shards.size(); ++device) {
    ForEachRow(array, device, [&](size_t to, size_t from, size_t length) {
      if (length > 0) std::memcpy(&whole.bytes[to * size], &shards[device].bytes[from * size], length * size);
    });
  }
  return whole;
}

}  // namespace callout::tools
