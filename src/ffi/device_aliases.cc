// SPDX-License-Identifier: Apache-2.0
#include "ffi/device_aliases.h"

#include <utility>

#include "transport/cuda/resources.h"

namespace callout::internal {

Status CopyAliases(const Aliases& aliases, const callout_call& call, const cuda::Device& device,
                   cuda::CUstream stream) {
  CALLOUT_RETURN_IF_ERROR(aliases.Check(call));
  Status copied;
  aliases.ForEach(call, [&](const callout_buffer& from, const callout_buffer& to) {
    if (!copied.ok()) return;
    copied = device.Check(
        device.driver().MemcpyDtoDAsync(cuda::AddressOf(to.data), cuda::AddressOf(from.data), from.size_bytes, stream),
        "cuMemcpyDtoDAsync");
  });
  return copied;
}

}  // namespace callout::internal
