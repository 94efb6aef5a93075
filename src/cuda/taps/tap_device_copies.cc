// SPDX-License-Identifier: Apache-2.0
//
// The ways of a record's data from its device to its slot, and what is made ready for them.
#include <utility>

#include "cuda/driver/resources.h"
#include "cuda/taps/tap_device.h"

namespace callout::internal {

void TapDevice::PrepareFor(Worker worker, const DeviceSending& sending) {
  const SlotShape shape = ShapeOf(sending);
  const MutexLock lock(preparing_);
  if (shape.pieces > 0) PrepareGather();
  PrepareStage(RingOf(worker), shape.data);
  if (NeedsBlock(shape.bytes())) PrepareBlock(shape.bytes());
}

void TapDevice::PrepareGather() {
  if (own_gather_ != nullptr || gather_failed_) return;
  Result<std::unique_ptr<const LeafGather>> gather = LeafGather::Load(device());
  gather_failed_ = !gather.ok();  // e.g. where no PTX may be compiled
  if (!gather.ok()) return;
  own_gather_ = std::move(gather).value();
  gather_.store(own_gather_.get(), std::memory_order_release);
}

void TapDevice::PrepareStage(Ring& ring, uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    if (ring.stage != nullptr && ring.stage->space.bytes() >= SideStage::SizeFor(bytes)) return;
  }
  std::shared_ptr<SideStage> stage = SideStage::New(device(), bytes);
  if (stage == nullptr) return;
  MutexLock lock(mutex_);
  ring.stage.swap(stage);
}

void TapDevice::PrepareBlock(uint64_t bytes) {
  if (reserved_.insert(bytes).second) pool_->Reserve(bytes);
  static_cast<void>(pool_->Prepare(bytes));  // the tap tells what failed, if the program gets there
}

// Where the stage has no room, the program waits for its own copy, as the device is behind with earlier ones.
void TapDevice::TakeStage(Ring& ring, Entry& entry) {
  const uint64_t bytes = entry.shape.data;
  if (ring.stage == nullptr || bytes < SideStage::kFrom || bytes > ring.stage->space.bytes()) return;
  if (!ring.stage->space.Has(bytes)) return;
  entry.stage = ring.stage;
  entry.staged = ring.stage->memory.get() + ring.stage->space.Take(bytes);
  entry.end_in_stage = ring.stage->space.end();
}

Status TapDevice::Queue(Entry& entry, TapSite& site, const DeviceSending& sending) {
  const bool waits_for_step = site.info.has_step && site.throttle->AsksForStep();
  Describe(*entry.slot, entry.shape, site, sending, /*is_admitted=*/!waits_for_step);
  cuda::ContextScope current(device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  Status status = QueueData(entry, sending);
  if (status.ok() && entry.stage != nullptr) {
    status = QueueByTheSide(entry, sending);
  } else if (status.ok()) {
    status = QueueArrival(device(), *entry.slot, entry.on_device, sending.stream, publication_);
  }
  // Some copies may be queued, and the slot is to be used again.
  if (!status.ok()) static_cast<void>(Synchronize(device(), sending.stream));
  if (!status.ok() && entry.stage != nullptr) static_cast<void>(side_->Synchronize());
  return status;
}

// A large record of many buffers that has no stage is copied: a kernel that writes to the host would keep processors.
Status TapDevice::QueueData(Entry& entry, const DeviceSending& sending) {
  const LeafGather* const gather = entry.shape.pieces > 0 ? gather_.load(std::memory_order_acquire) : nullptr;
  const cuda::CUdeviceptr in_slot = entry.on_device + entry.shape.header;
  if (gather != nullptr && (entry.stage != nullptr || entry.shape.data < SideStage::kFrom)) {
    const cuda::CUdeviceptr to = entry.stage != nullptr ? entry.staged : in_slot;
    return QueueGather(*gather, *entry.slot, entry.shape, entry.on_device, to, sending);
  }
  if (entry.stage == nullptr) return QueueCopies(device(), *entry.slot, sending);
  return QueueCopiesOnDevice(device(), *entry.slot, entry.staged, sending);
}

Status TapDevice::QueueByTheSide(Entry& entry, const DeviceSending& sending) {
  return side_->Behind(sending.stream, [&](cuda::CUstream side) {
    const cuda::CUresult copied =
        device().driver().MemcpyDtoHAsync(entry.slot->data, entry.staged, entry.shape.data, side);
    CALLOUT_RETURN_IF_ERROR(device().Check(copied, "cuMemcpyDtoHAsync"));
    return QueueArrival(device(), *entry.slot, entry.on_device, side, publication_);
  });
}

}  // namespace callout::internal
