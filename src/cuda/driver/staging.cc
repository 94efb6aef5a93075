// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/staging.h"

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "cuda/driver/resources.h"

namespace callout::internal::cuda {
namespace {

// Small copies arrive within it. To sleep and to be woken up costs some ten microseconds more.
constexpr auto kSpinning = std::chrono::microseconds(50);
constexpr int kLooksBetweenClocks = 8;

// True if the device got there while this thread was looking.
template <typename HasArrived>
Result<bool> SpinUntil(HasArrived&& has_arrived) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinning;
  do {
    for (int i = 0; i < kLooksBetweenClocks; ++i) {
      CALLOUT_ASSIGN_OR_RETURN(const bool arrived, has_arrived());
      if (arrived) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

Result<Staging> Staging::Begin(PinnedPool& pool, CUstream stream, size_t bytes, std::string_view subject) {
  Result<PinnedBlock> block = pool.TakeBehind(bytes, stream);
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
    if (!block_.in_use) static_cast<void>(Synchronize(pool_->device(), stream_));
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

Result<bool> Staging::Mark() {
  if (!pool_->writes_values()) return false;
  // The default write comes behind a fence: who sees it sees the copies.
  const CUresult result = pool_->device().driver().StreamWriteValue32(
      stream_, block_.mark_on_device(), ++block_.last_number, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result == CUDA_ERROR_NOT_SUPPORTED) pool_->LearnThatNothingIsWritten();
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED) return result == CUDA_SUCCESS;
  return Check(result, "cuStreamWriteValue32");
}

Status Staging::Wait() {
  // To read memory takes no lock of the driver's, which other threads may want.
  CALLOUT_ASSIGN_OR_RETURN(const bool is_marked, Mark());
  bool there = false;
  if (is_marked) {
    // Pairs with the write of the stream.
    const auto has_arrived = [this]() -> Result<bool> {
      return std::atomic_ref<uint32_t>(*block_.mark()).load(std::memory_order_acquire) == block_.last_number;
    };
    CALLOUT_ASSIGN_OR_RETURN(there, SpinUntil(has_arrived));
  }
  if (!there) CALLOUT_RETURN_IF_ERROR(WaitByEvent(/*looks_first=*/!is_marked));
  copying_ = false;
  block_.in_use = false;
  return OkStatus();
}

Status Staging::WaitByEvent(bool looks_first) {
  const Driver& driver = pool_->device().driver();
  CUevent const event = block_.event.get();
  CALLOUT_RETURN_IF_ERROR(Check(driver.EventRecord(event, stream_), "cuEventRecord"));
  const AsideOfCaptures aside(driver);  // other threads may record
  if (looks_first) {
    const auto has_arrived = [&]() -> Result<bool> {
      const CUresult result = driver.EventQuery(event);
      if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return result == CUDA_SUCCESS;
      return Check(result, "cuEventQuery");
    };
    CALLOUT_ASSIGN_OR_RETURN(const bool there, SpinUntil(has_arrived));
    if (there) return OkStatus();
  }
  return Check(driver.EventSynchronize(event), "cuEventSynchronize");
}

}  // namespace callout::internal::cuda
