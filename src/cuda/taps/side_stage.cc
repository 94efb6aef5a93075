// SPDX-License-Identifier: Apache-2.0
#include "cuda/taps/side_stage.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cuda/driver/stream_work.h"

namespace callout::internal {

uint64_t SideStage::SizeFor(uint64_t bytes) {
  if (bytes < kFrom || bytes > kMost) return 0;
  return std::min(std::bit_ceil(2 * bytes), kMost);  // The sizes are few, so that the stage seldom grows.
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

Status SideStream::WaitFor(cuda::CUstream program) const { return Order(device_, event_, program, stream_.get()); }

}  // namespace callout::internal
