// SPDX-License-Identifier: Apache-2.0
#include "core/handles/host_object.h"

#include <cstring>

#include "core/base/cat.h"
#include "core/frame/buffer.h"

namespace callout::internal {

HostArray HostArray::CopyOf(const callout_buffer& buffer) {
  const auto* bytes = static_cast<const std::byte*>(buffer.data);
  return {.dtype = buffer.dtype,
          .dims = {buffer.dims, buffer.dims + buffer.rank},
          .data = {bytes, bytes + buffer.size_bytes}};
}

callout_buffer HostArray::view() const {
  return {.dtype = dtype,
          .rank = static_cast<uint32_t>(dims.size()),
          .data = const_cast<std::byte*>(data.data()),
          .dims = dims.data(),
          .size_bytes = data.size()};
}

Status Write(std::span<const HostArray> arrays, const Wanted& wanted) {
  const auto [results, lane, lanes] = wanted;
  if (arrays.size() != results.size()) [[unlikely]] {
    return InvalidArgument(Cat("callout.v1.read: expected ", arrays.size(), " results, got ", results.size()));
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const size_t size = arrays[i].data.size();
    if (arrays[i].dtype != results[i].dtype || results[i].size_bytes != size * lanes) [[unlikely]] {
      return InvalidArgument(Cat("callout.v1.read: array ", i, " of each of ", lanes, " objects is ",
                                 ShapeString(arrays[i].view()), ", and the result is ", ShapeString(results[i])));
    }
    if (size > 0) std::memcpy(static_cast<std::byte*>(results[i].data) + lane * size, arrays[i].data.data(), size);
  }
  return OkStatus();
}

Status HostObject::ReadInto(const Wanted&) const {
  return InvalidArgument("callout.v1.read: this object takes taps, and has nothing that programs read");
}

}  // namespace callout::internal
