// SPDX-License-Identifier: Apache-2.0
#include "cuda/handlers/device_results.h"

#include <utility>

#include "core/ffi/call_site.h"
#include "cuda/driver/stream_work.h"

namespace callout::internal {

Status CopyAliases(const Aliases& aliases, const callout_call& call, const cuda::Device& device,
                   cuda::CUstream stream) {
  CALLOUT_RETURN_IF_ERROR(aliases.Check(call));
  Status copied;
  aliases.ForEach(call, [&](const callout_buffer& from, const callout_buffer& to) {
    if (!copied.ok()) return;
    copied = CopyOnDevice(device, stream, cuda::AddressOf(to.data), cuda::AddressOf(from.data), from.size_bytes, "");
  });
  return copied;
}

Status PassTokenOn(const cuda::Device& device, cuda::CUstream stream, std::span<const callout_buffer>* args,
                   std::span<const callout_buffer>* results) {
  CALLOUT_ASSIGN_OR_RETURN(const ThreadToken token, TakeToken(args, results));
  return CopyOnDevice(device, stream, cuda::AddressOf(token.to), cuda::AddressOf(token.from), sizeof(uint32_t),
                      "a token");
}

Status DeferOn(const cuda::Device& device, cuda::CUstream stream, const Status& outcome,
               std::span<const callout_buffer> results) {
  CALLOUT_ASSIGN_OR_RETURN(const int32_t number, DeferredNumber(outcome, results));
  // This queues a memset and not a copy from host memory. If the stream is captured, the graph runs again later, when a
  // copy would read host memory that is gone.
  CALLOUT_RETURN_IF_ERROR(
      SetNumber(device, stream, cuda::AddressOf(results.back().data), static_cast<uint32_t>(number)));
  if (outcome.ok()) return OkStatus();
  for (const callout_buffer& result : results.first(results.size() - 1)) {
    if (result.size_bytes == 0) continue;
    CALLOUT_RETURN_IF_ERROR(FillWithZeros(device, stream, cuda::AddressOf(result.data), result.size_bytes));
  }
  return OkStatus();
}

}  // namespace callout::internal
