// SPDX-License-Identifier: Apache-2.0
#include "ffi/device_results.h"

#include "ffi/deferral.h"
#include "ffi/thread_token.h"
#include "transport/cuda/resources.h"

namespace callout::internal {
namespace {

cuda::CUdeviceptr AddressOf(const callout_buffer& buffer) { return reinterpret_cast<cuda::CUdeviceptr>(buffer.data); }

}  // namespace

Status PassTokenOn(const cuda::Device& device, cuda::CUstream stream, std::span<const callout_buffer>* args,
                   std::span<const callout_buffer>* results) {
  CALLOUT_ASSIGN_OR_RETURN(const ThreadToken token, TakeToken(args, results));
  return CopyOnDevice(device, stream, reinterpret_cast<cuda::CUdeviceptr>(token.to),
                      reinterpret_cast<cuda::CUdeviceptr>(token.from), sizeof(uint32_t), "a token");
}

Status DeferOn(const cuda::Device& device, cuda::CUstream stream, const Status& outcome,
               std::span<const callout_buffer> results) {
  CALLOUT_ASSIGN_OR_RETURN(const int32_t number, DeferredNumber(outcome, results));
  const cuda::Driver& driver = device.driver();
  if (outcome.ok()) {
    return device.Check(driver.MemsetD8Async(AddressOf(results.back()), 0, sizeof(number), stream), "cuMemsetD8Async");
  }
  // From pageable memory, which the driver copies aside before it returns.
  CALLOUT_RETURN_IF_ERROR(device.Check(
      driver.MemcpyHtoDAsync(AddressOf(results.back()), &number, sizeof(number), stream), "cuMemcpyHtoDAsync"));
  for (const callout_buffer& result : results.first(results.size() - 1)) {
    if (result.size_bytes == 0) continue;
    CALLOUT_RETURN_IF_ERROR(
        device.Check(driver.MemsetD8Async(AddressOf(result), 0, result.size_bytes, stream), "cuMemsetD8Async"));
  }
  return OkStatus();
}

}  // namespace callout::internal
