// SPDX-License-Identifier: Apache-2.0
//
// The paths of a record's data from its device to its slot, and the preparations for them.
#include "cuda/taps/tap_device.h"

#include <utility>

#include "core/base/cat.h"
#include "core/base/status.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/probe.h"
#include "cuda/driver/stream_work.h"

namespace callout::internal {
namespace {

// The number of records that one ring hands on before the others get their turn.
constexpr int kBatchRecords = 256;

void RecordWait(const ProfileSpan& span, const Callback& callback, int32_t device_ordinal) {
  if (!span.on()) return;
  span.End(EventOf(ProfileKind::kRoomWait, callback, device_ordinal, span.session()));
}

// Notes that the program which caused the error may have ended.
Status ToldLate(const Status& status) {
  return status.WithMessage(std::string(status.message()) + " (found when the program had gone on)");
}

}  // namespace

Result<std::shared_ptr<TapDevice>> TapDevice::New(Delivery& delivery, TapDrainer& drainer, int ordinal,
                                                  uint64_t ring_bytes) {
  CALLOUT_ASSIGN_OR_RETURN(auto pool, cuda::PinnedPool::On(ordinal));
  auto taps = std::make_shared<TapDevice>(delivery, drainer, std::move(pool), ring_bytes);
  CALLOUT_ASSIGN_OR_RETURN(taps->check_stream_, CreateStream(taps->device()));
  CALLOUT_ASSIGN_OR_RETURN(taps->check_event_, CreateEvent(taps->device()));
  CALLOUT_ASSIGN_OR_RETURN(taps->side_, SideStream::New(taps->device()));
  return taps;
}

// If records are still on their way, the driver waits for their copies when the reaper unpins the memory.
TapDevice::~TapDevice() {
  for (Ring& ring : rings_) {
    if (ring.space && ring.entries.empty()) pool_->GiveBack(std::move(ring.memory));
  }
}

Status TapDevice::Prepare(Worker worker) {
  Ring& ring = RingOf(worker);
  {
    MutexLock lock(mutex_);
    if (ring.space) return OkStatus();
  }
  const cuda::AsideOfCaptures aside(device().driver());  // Other threads may be capturing.
  CALLOUT_ASSIGN_OR_RETURN(cuda::PinnedBlock memory, pool_->Take(ring_bytes_));
  MutexLock lock(mutex_);
  if (ring.space) return pool_->GiveBack(std::move(memory)), OkStatus();  // Another thread was first.
  ring.memory = std::move(memory);
  ring.space.emplace(ring_bytes_);
  return OkStatus();
}

Status TapDevice::Described(const Callback& callback, const Status& status) const {
  return status.WithMessage(DescribeFailure(callback, ordinal(), status));
}

Status TapDevice::TakeFailure(const TapSite& site) {
  std::optional<Failure> failure;
  {
    MutexLock lock(mutex_);
    failure = std::exchange(failure_, std::nullopt);
    if (!failure && !broken_.ok()) return Described(*site.callback, broken_);
  }
  return failure ? Described(*failure->callback, failure->status) : OkStatus();
}

void TapDevice::Fail(TapSite& site, Status status) {
  {
    MutexLock lock(mutex_);
    if (!failure_) {
      failure_.emplace(Failure{site.callback, std::move(status)});
      return;
    }
  }
  delivery_.AddError(*site.callback, ordinal(), status);  // One failure waits for a program already.
}

void TapDevice::ReportFailure() {
  std::optional<Failure> failure;
  {
    MutexLock lock(mutex_);
    failure = std::exchange(failure_, std::nullopt);
  }
  if (failure) delivery_.AddError(*failure->callback, ordinal(), failure->status);
}

uint64_t TapDevice::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  room_.notify_all();
  return waiting_;
}

Status TapDevice::Take(TapSite& site, const DeviceSending& sending) {
  CALLOUT_RETURN_IF_ERROR(TakeFailure(site));
  if (Status status = Prepare(site.callback->worker()); !status.ok()) return Described(*site.callback, status);
  Result<Entry*> entry = Reserve(site, sending, ShapeOf(sending));
  if (!entry.ok()) return Described(*site.callback, entry.status());
  if (*entry == nullptr) return OkStatus();
  const Status queued = Queue(**entry, site, sending);
  // Release: pairs with HandOn. The drainer reads the description even of a record that the device never writes.
  (*entry)->state.store(queued.ok() ? State::kQueued : State::kCancelled, std::memory_order_release);
  drainer_.wake();
  return queued.ok() ? OkStatus() : Described(*site.callback, queued);
}

bool TapDevice::HasRoom(Ring& ring, uint64_t bytes) const {
  if (NeedsBlock(bytes)) return ring.block_bytes == 0 || ring.block_bytes + bytes <= delivery_.queue_bytes();
  return ring.space->Has(bytes);
}

Status TapDevice::WaitForRoom(Ring& ring, const TapSite& site, const DeviceSending& sending, uint64_t bytes) {
  const Callback& callback = *site.callback;
  const InFlightScope in_flight(Activity::kWaitingForRoom, callback.id(), sending.device_ordinal, sending.run_id);
  const ProfileSpan wait;
  ++ring.blocked;
  ++waiting_;
  while (!HasRoom(ring, bytes) && IsWorthWaiting(ring, site)) room_.wait(mutex_);
  --waiting_;
  RecordWait(wait, callback, sending.device_ordinal);
  return broken_;
}

Result<TapDevice::Entry*> TapDevice::Reserve(TapSite& site, const DeviceSending& sending, const SlotShape& shape) {
  Ring& ring = RingOf(site.callback->worker());
  const uint64_t bytes = shape.bytes();
  using Refusal = BoundedQueue::Outcome;
  std::optional<Refusal> refusal;
  bool exceeds = false;
  {
    MutexLock lock(mutex_);
    if (!HasRoom(ring, bytes) && !closed_) {
      // A delivery thread that waited for room in its own queue would wait for itself.
      exceeds = site.policy == OverflowPolicy::kBlock && DeliveryThread::IsCurrent();
      // Policies other than kBlock wait only for the device, whose progress depends on nobody: the work that fills the
      // ring is on its stream. A host that is far ahead of its device is no reason to lose records.
      if (!exceeds && IsWorthWaiting(ring, site)) CALLOUT_RETURN_IF_ERROR(WaitForRoom(ring, site, sending, bytes));
      if (!exceeds && !HasRoom(ring, bytes)) refusal = Refusal::kFull;
    }
    if (closed_) refusal = Refusal::kClosed;
    if (!refusal && !exceeds && !NeedsBlock(bytes)) {
      const uint64_t at = ring.space->Take(bytes);
      return Append(ring, site, ring.memory.data() + at, ring.memory.on_device + at, shape);
    }
    if (!refusal) ring.block_bytes += bytes;
  }
  if (!refusal) return ReserveBlock(ring, site, shape);
  if (delivery_.Refuse(site, sending.device_ordinal, *refusal)) return NoRoom(ring, bytes);
  return nullptr;
}

Status TapDevice::NoRoom(Ring& ring, uint64_t bytes) const {
  uint64_t records = 0;
  uint64_t used = 0;
  uint64_t limit = 0;
  {
    MutexLock lock(mutex_);
    records = ring.entries.size();
    used = NeedsBlock(bytes) ? ring.block_bytes : ring.space->used();
    limit = NeedsBlock(bytes) ? delivery_.queue_bytes() : ring_bytes_;
  }
  return ResourceExhausted(Cat("the tap was made with on_full=\"fail\", and there is no pinned memory for the ", bytes,
                               " bytes of its record: ", records, " records have ", used, " of ", limit,
                               " bytes, and wait for a queue that is full. ", delivery_.DescribeQueues()));
}

// Requires that the record's bytes are counted in `block_bytes`.
Result<TapDevice::Entry*> TapDevice::ReserveBlock(Ring& ring, TapSite& site, const SlotShape& shape) {
  Result<cuda::PinnedBlock> block = pool_->Take(shape.bytes());
  MutexLock lock(mutex_);
  if (!block.ok()) {
    ring.block_bytes -= shape.bytes();
    room_.notify_all();
    return std::move(block).status();
  }
  Entry* entry = Append(ring, site, block->data(), block->on_device, shape);
  entry->block = std::move(block).value();
  return entry;
}

TapDevice::Entry* TapDevice::Append(Ring& ring, TapSite& site, char* memory, cuda::CUdeviceptr on_device,
                                    const SlotShape& shape) {
  auto* slot = new (memory) TapSlot;
  slot->skipped = site.throttle->TakeSkipped(ordinal());                         // Taken here, in the program's order.
  std::atomic_ref<uint32_t>(slot->arrived).store(0, std::memory_order_relaxed);  // Relaxed: published by the lock.
  slot->number = ring.next_number++;
  if (ring.next_number == 0) ring.next_number = 1;
  Entry& entry = ring.entries.emplace_back(slot, on_device, ring.space->end(), shape);
  TakeStage(ring, entry);
  ring.taken.fetch_add(1, std::memory_order_release);
  drainer_.outstanding.fetch_add(1, std::memory_order_seq_cst);  // Pairs with the drainer's Sleep and Park.
  return &entry;
}

TapDevice::Entry* TapDevice::Front(Ring& ring) {
  MutexLock lock(mutex_);
  return ring.entries.empty() ? nullptr : &ring.entries.front();  // The entry stays in place until Pop.
}

bool TapDevice::Flush() {
  bool progress = false;
  for (Ring& ring : rings_) progress = Flush(ring) || progress;
  return progress;
}

bool TapDevice::Flush(Ring& ring) {
  int n = 0;
  for (; n < kBatchRecords; ++n) {
    Entry* entry = Front(ring);
    const Outcome outcome = entry == nullptr ? Outcome::kStays : HandOn(*entry);
    if (outcome == Outcome::kQueueFull) MarkStuck(ring);
    if (outcome != Outcome::kDone) break;
    Pop(ring);
  }
  return n > 0;
}

void TapDevice::MarkStuck(Ring& ring) {
  MutexLock lock(mutex_);
  if (ring.is_stuck) return;
  ring.is_stuck = true;
  if (waiting_ > 0) room_.notify_all();
}

TapDevice::Outcome TapDevice::HandOn(Entry& entry) {
  const State state = entry.state.load(std::memory_order_acquire);
  if (state == State::kCancelled) return LeaveOut(entry), Outcome::kDone;
  if (state == State::kQueuing) return Outcome::kStays;
  bool is_broken = false;
  {
    MutexLock lock(mutex_);
    is_broken = !broken_.ok();
  }
  if (entry.slot->HasArrived()) return Deliver(entry);
  if (!is_broken) return Outcome::kStays;
  Lose(entry);
  return Outcome::kDone;
}

TapDevice::Outcome TapDevice::Deliver(Entry& entry) {
  TapSlot& slot = *entry.slot;
  TapSite& site = *slot.site;
  Sending sending = {.buffers = slot.value(),
                     .device_ordinal = ordinal(),
                     .run_id = slot.run_id,
                     .step = slot.step(),
                     .patience = Patience::kComesAgain,
                     .skipped = slot.skipped};
  if (!entry.is_decided) {
    entry.is_decided = true;
    if (!slot.is_admitted && !Delivery::Admit(site, ordinal(), sending.step, Throttle::Place::kUpstream)) {
      site.throttle->AddSkipped(slot.skipped, ordinal(), Throttle::Place::kUpstream);
      return Outcome::kDone;
    }
    if (site.inspector != nullptr) {
      Result<Inspector::Send> send = Delivery::Inspect(site, sending);
      if (!send.ok()) return Fail(site, ToldLate(send.status())), Outcome::kDone;
      if (*send == Inspector::Send::kNothing) return Outcome::kDone;
      entry.is_notice = *send == Inspector::Send::kNotice;
      sending.skipped = slot.skipped = 0;  // The inspector has counted the skipped records.
    }
  }
  if (entry.is_notice) sending.buffers = {};
  Status status = Guarded([&] { return delivery_.Enqueue(site, sending); });
  if (status.code() == StatusCode::kUnavailable) return Outcome::kQueueFull;
  if (!status.ok()) Fail(site, std::move(status));
  return Outcome::kDone;
}

// Adds the skipped record to the count of the next record.
void TapDevice::LeaveOut(Entry& entry) {
  entry.slot->site->throttle->AddSkipped(entry.slot->skipped + 1, ordinal(), Throttle::Place::kUpstream);
}

void TapDevice::Lose(Entry& entry) {
  LeaveOut(entry);
  TapSite& site = *entry.slot->site;
  CallbackStats& stats = site.callback->stats();
  stats.drops.fetch_add(1, std::memory_order_relaxed);
  stats.errors.fetch_add(1, std::memory_order_relaxed);
  Status status;
  {
    MutexLock lock(mutex_);
    status = broken_.WithMessage("a record is lost: " + std::string(broken_.message()));
  }
  delivery_.AddError(*site.callback, ordinal(), status);
}

void TapDevice::Pop(Ring& ring) {
  cuda::PinnedBlock block;
  std::shared_ptr<SideStage> stage;  // Pop may drop the last reference to an outgrown stage, after unlocking.
  {
    MutexLock lock(mutex_);
    Entry& entry = ring.entries.front();
    ring.space->Release(entry.end);
    block = std::move(entry.block);
    if (block.memory) ring.block_bytes -= entry.shape.bytes();
    if (entry.stage != nullptr) entry.stage->space.Release(entry.end_in_stage);
    stage = std::move(entry.stage);
    ring.entries.pop_front();
    ring.is_stuck = false;
    if (waiting_ > 0) room_.notify_all();
  }
  if (block.memory) pool_->GiveBack(std::move(block));
  ring.flushed.fetch_add(1, std::memory_order_seq_cst);
  drainer_.outstanding.fetch_sub(1, std::memory_order_seq_cst);
}

Status TapDevice::Ask() const {
  const cuda::AsideOfCaptures aside(device().driver());
  cuda::ContextScope current(device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  CALLOUT_RETURN_IF_ERROR(cuda::Record(device(), check_event_, check_stream_.get()));
  return IsDone(device(), check_event_).status();
}

void TapDevice::Check() {
  if (Ask().ok()) return;
  Status status = Ask();  // An error of the context stays.
  if (status.ok()) return;
  MutexLock lock(mutex_);
  if (broken_.ok()) broken_ = std::move(status);
  room_.notify_all();
}

UpstreamStats TapDevice::Statistics(Worker worker) const {
  MutexLock lock(mutex_);
  const Ring& ring = RingOf(worker);
  UpstreamStats stats = {.worker = worker, .device_ordinal = ordinal(), .blocked = ring.blocked};
  if (!ring.space) return stats;
  stats.records = ring.entries.size();
  stats.bytes = ring.space->used() + ring.block_bytes;
  stats.capacity_bytes = ring_bytes_ + delivery_.queue_bytes();
  return stats;
}

void TapDevice::PrepareFor(Worker worker, const DeviceSending& sending) {
  const SlotShape shape = ShapeOf(sending);
  Ring& ring = RingOf(worker);
  const cuda::AsideOfCaptures aside(device().driver());  // Other threads may be capturing.
  const MutexLock lock(preparing_);
  if (shape.pieces > 0) PrepareGather();
  if (SideStage::SizeFor(shape.data) > 0) PrepareStage(ring, shape.data);
  if (NeedsBlock(shape.bytes())) PrepareBlock(ring, shape.bytes());
}

void TapDevice::PrepareGather() {
  if (own_gather_ != nullptr || gather_failed_) return;
  Result<std::unique_ptr<const LeafGather>> gather = LeafGather::Load(device());
  gather_failed_ = !gather.ok();  // For example, some systems forbid compiling PTX.
  if (!gather.ok()) return;
  own_gather_ = std::move(gather).value();
  gather_.store(own_gather_.get(), std::memory_order_release);
}

void TapDevice::PrepareStage(Ring& ring, uint64_t bytes) {
  // Released before a larger stage is allocated, unless it holds a record.
  std::shared_ptr<SideStage> outgrown;
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

// Ignores errors: the tap returns them if the program reaches it.
void TapDevice::PrepareBlock(Ring& ring, uint64_t bytes) {
  if (bytes < ring.no_block_from && !pool_->Prepare(bytes).ok()) ring.no_block_from = bytes;
}

// If the stage has no room, the device is behind, and the program waits for its own copy to the host.
void TapDevice::TakeStage(Ring& ring, Entry& entry) {
  const uint64_t bytes = entry.shape.data;
  if (ring.stage == nullptr || bytes < SideStage::kFrom || bytes > ring.stage->space.bytes()) return;
  if (!ring.stage->space.Has(bytes)) return;
  entry.stage = ring.stage;
  entry.staged = ring.stage->memory.get() + ring.stage->space.Take(bytes);
  entry.end_in_stage = ring.stage->space.end();
}

Status TapDevice::Queue(Entry& entry, TapSite& site, const DeviceSending& sending) {
  const bool waits_for_step = !site.has_rows && site.info.has_step && site.throttle->AsksForStep();
  Describe(*entry.slot, entry.shape, site, sending, /*is_admitted=*/!waits_for_step);
  cuda::ContextScope current(device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  Status status = QueueData(entry, sending);
  if (status.ok() && entry.stage != nullptr) {
    status = QueueByTheSide(entry, sending);
  } else if (status.ok()) {
    status = QueueArrival(device(), *entry.slot, entry.on_device, sending.stream, publication_);
  }
  // Some copies may be queued, and the slot will be reused.
  if (!status.ok()) static_cast<void>(Synchronize(device(), sending.stream));
  if (!status.ok() && entry.stage != nullptr) static_cast<void>(side_->Synchronize());
  return status;
}

// A large record of many buffers without a stage is copied by the driver: a kernel that writes to the host would occupy
// multiprocessors.
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
