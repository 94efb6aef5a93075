// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/staging.h"

#include <chrono>
#include <string>
#include <utility>

namespace callout::internal::cuda {
namespace {

// Small copies arrive within it. To sleep and to be woken up costs some ten microseconds more.
constexpr auto kSpinning = std::chrono::microseconds(50);

// True if the device got there while this thread was looking.
Result<bool> SpinFor(const Device& device, CUevent event, std::string_view subject) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinning;
  do {
    const CUresult result = device.driver().EventQuery(event);
    if (result == CUDA_SUCCESS) return true;
    if (result != CUDA_ERROR_NOT_READY) return device.Check(result, "cuEventQuery", subject);
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

Result<Staging> Staging::Begin(PinnedPool& pool, CUstream stream, size_t bytes, std::string_view subject) {
  Result<PinnedBlock> block = pool.Take(bytes);
  if (block.ok()) return Staging(pool, stream, subject, std::move(block).value());
  return Status(block.status().code(), "no pinned memory for the " + std::to_string(bytes) + " bytes of " +
                                           std::string(subject) + ": " + std::string(block.status().message()));
}

Staging::~Staging() {
  if (pool_ == nullptr) return;
  if (copying_ && MayCallDriver()) {
    const ContextScope current(pool_->device());
    const Driver& driver = pool_->device().driver();
    block_.in_use = driver.EventRecord(block_.event.get(), stream_) == CUDA_SUCCESS;
    // Who waits is safe. If that fails too, the device is broken and copies nothing any more.
    if (!block_.in_use) static_cast<void>(driver.StreamSynchronize(stream_));
  }
  pool_->GiveBack(std::move(block_));
}

Status Staging::ToHost(void* to, CUdeviceptr from, size_t bytes) {
  if (bytes == 0) return OkStatus();
  copying_ = true;
  return Check(pool_->device().driver().MemcpyDtoHAsync(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
}

Status Staging::ToDevice(CUdeviceptr to, const void* from, size_t bytes) {
  if (bytes == 0) return OkStatus();
  copying_ = true;
  return Check(pool_->device().driver().MemcpyHtoDAsync(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
}

Status Staging::Wait() {
  const Device& device = pool_->device();
  CALLOUT_RETURN_IF_ERROR(Check(device.driver().EventRecord(block_.event.get(), stream_), "cuEventRecord"));
  CALLOUT_ASSIGN_OR_RETURN(const bool there, SpinFor(device, block_.event.get(), subject_));
  if (!there) {
    CALLOUT_RETURN_IF_ERROR(Check(device.driver().EventSynchronize(block_.event.get()), "cuEventSynchronize"));
  }
  copying_ = false;
  return OkStatus();
}

}  // namespace callout::internal::cuda
