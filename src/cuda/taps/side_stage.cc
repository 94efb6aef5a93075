// SPDX-License-Identifier: Apache-2.0
#include "cuda/taps/side_stage.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace callout::internal {

uint64_t SideStage::SizeFor(uint64_t bytes) {
  if (bytes < kFrom || bytes > kMost) return 0;
  return std::min(std::bit_ceil(2 * bytes), kMost);  // few sizes, so that it seldom grows
}

std::shared_ptr<SideStage> SideStage::New(const cuda::Device& device, uint64_t bytes) {
  const uint64_t size = SizeFor(bytes);
  Result<cuda::DeviceMemory> memory = AllocateDevice(device, size);
  return memory.ok() ? std::make_shared<SideStage>(std::move(memory).value(), size) : nullptr;
}

Result<std::unique_ptr<SideStream>> SideStream::New(const cuda::Device& device) {
  std::unique_ptr<SideStream> side(new SideStream(device));
  CALLOUT_ASSIGN_OR_RETURN(side->stream_, CreateStream(device));
  CALLOUT_ASSIGN_OR_RETURN(side->event_, CreateEvent(device));
  return side;
}

Status SideStream::WaitFor(cuda::CUstream program) const {
  const cuda::Driver& driver = device_.driver();
  CALLOUT_RETURN_IF_ERROR(device_.Check(driver.EventRecord(event_.get(), program), "cuEventRecord"));
  return device_.Check(driver.StreamWaitEvent(stream_.get(), event_.get(), 0), "cuStreamWaitEvent");
}

}  // namespace callout::internal
