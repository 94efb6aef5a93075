// SPDX-License-Identifier: Apache-2.0
#include "ffi/device_aliases.h"

#include <utility>

namespace callout::internal {
namespace {

cuda::CUdeviceptr AddressOf(const callout_buffer& buffer) { return reinterpret_cast<cuda::CUdeviceptr>(buffer.data); }

}  // namespace

Status CopyAliases(const Aliases& aliases, const callout_call& call, const cuda::Device& device,
                   cuda::CUstream stream) {
  CALLOUT_RETURN_IF_ERROR(aliases.Check(call));
  Status copied;
  aliases.ForEach(call, [&](const callout_buffer& from, const callout_buffer& to) {
    if (!copied.ok()) return;
    copied = device.Check(device.driver().MemcpyDtoDAsync(AddressOf(to), AddressOf(from), from.size_bytes, stream),
                          "cuMemcpyDtoDAsync");
  });
  return copied;
}

}  // namespace callout::internal
