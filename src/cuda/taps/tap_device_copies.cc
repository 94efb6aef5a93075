// SPDX-License-Identifier: Apache-2.0
//
// The ways of a record's data from its device to its slot, and what is made ready for them.
#include <utility>

#include "cuda/driver/stream_work.h"
#include "cuda/taps/tap_device.h"

namespace callout::internal {

void TapDevice::PrepareFor(Worker worker, const DeviceSending& sending) {
  const SlotShape shape = ShapeOf(sending);
  Ring& ring = RingOf(worker);
  const cuda::AsideOfCaptures aside(device().driver());  // other threads may record
  const MutexLock lock(preparing_);
  if (shape.pieces > 0) PrepareGather();
  if (SideStage::SizeFor(shape.data) > 0) PrepareStage(ring, shape.data);
  if (NeedsBlock(shape.bytes())) PrepareBlock(ring, shape.bytes());
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
  std::shared_ptr<SideStage> outgrown;  // let go before there is another, if no record is in it
  {
    MutexLock lock(mutex_);
    if (ring.stage != nullptr && ring.stage->space.bytes() >= SideStage::SizeFor(bytes)) return;
    if (bytes >= ring.no_stage_from) return;
    outgrown = std::move(ring.stage);
  }
  outgrown.reset();
  std::shared_ptr<SideStage> stage = SideStage::New(device(), bytes);
  MutexLock lock(mutex_);
  if (stage == nullptr) ring.no_stage_from = bytes;
  ring.stage = std::move(stage);
}

// What failed is told by the tap, if the program gets there.
void TapDevice::PrepareBlock(Ring& ring, uint64_t bytes) {
  if (bytes < ring.no_block_from && !pool_->Prepare(bytes).ok()) ring.no_block_from = bytes;
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
    return QueueGather(device(), *gather, *entry.slot, entry.shape, entry.on_device, to, sending);
  }
  if (entry.stage == nullptr) return QueueCopies(device(), *entry.slot, sending);
  return QueueCopiesOnDevice(device(), *entry.slot, entry.staged, sending);
}

Status TapDevice::QueueByTheSide(Entry& entry, const DeviceSending& sending) {
  return side_->Behind(sending.stream, [&](cuda::CUstream side) {
    CALLOUT_RETURN_IF_ERROR(CopyToHost(device(), side, entry.slot->data, entry.staged, entry.shape.data));
    return QueueArrival(device(), *entry.slot, entry.on_device, side, publication_);
  });
}

}  // namespace callout::internal
