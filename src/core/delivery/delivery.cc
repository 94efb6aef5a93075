// SPDX-License-Identifier: Apache-2.0
//
// The parts of Delivery that take records: options, channels, and Push.
#include "core/delivery/delivery.h"

#include <algorithm>
#include <cstring>

#include "core/base/block_pool.h"
#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/base/status.h"
#include "core/base/ticks.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/probe.h"

namespace callout::internal {
namespace {

// Buffers up to this size are copied into the queue's own memory, and the receiver copies them once more if it keeps
// them. A second copy of 4 KB costs less than a block of its own.
constexpr uint64_t kInlineBytes = 4096;

[[gnu::always_inline]] inline Delivery::RecordSize MeasureRecord(std::span<const callout_buffer> buffers) {
  size_t bytes = sizeof(RecordHeader) + buffers.size() * (sizeof(callout_buffer) + sizeof(void*));
  size_t inline_bytes = 0;
  uint64_t charged = 0;
  for (const callout_buffer& buffer : buffers) {
    bytes += buffer.rank * sizeof(int64_t);
    charged += buffer.size_bytes;
    if (buffer.size_bytes <= kInlineBytes) inline_bytes += AlignUp(buffer.size_bytes, 16);
  }
  bytes = AlignUp(bytes, 16) + inline_bytes;
  return {bytes, charged + bytes - inline_bytes};
}

// Marks a record as lost that ran out of memory while it was filled. The record has its ticket, so it must still pass
// through the queue.
[[gnu::noinline, gnu::cold]] bool Lose(RecordHeader& header, uint32_t num_copied) {
  for (uint32_t i = 0; i < num_copied; ++i) FreeBlock(header.blocks()[i]);
  header.num_buffers = 0;
  header.sequence = header.last_sequence();  // so that the queue counts all rows as done
  header.kind = RecordKind::kLost;
  return false;
}

// Returns false if there is no memory.
[[gnu::always_inline]] inline bool CopyBuffers(RecordHeader& header, const callout_buffer* buffers) {
  int64_t* dims = header.dims();
  size_t num_dims = 0;
  for (uint32_t i = 0; i < header.num_buffers; ++i) num_dims += buffers[i].rank;
  const auto begin = reinterpret_cast<uintptr_t>(&header);
  auto* data = reinterpret_cast<char*>(begin + AlignUp(reinterpret_cast<uintptr_t>(dims + num_dims) - begin, 16));
  for (uint32_t i = 0; i < header.num_buffers; ++i) {
    callout_buffer& copy = header.buffers()[i];
    copy = buffers[i];
    copy.dims = dims;
    dims = std::copy_n(buffers[i].dims, buffers[i].rank, dims);
    void*& block = header.blocks()[i];
    if (copy.size_bytes > kInlineBytes) {
      copy.data = block = AllocateBlock(copy.size_bytes);
      if (block == nullptr) [[unlikely]]
        return Lose(header, i);
    } else {
      block = nullptr;
      copy.data = data;
      data += AlignUp(copy.size_bytes, 16);
    }
    if (copy.size_bytes > 0) std::memcpy(copy.data, buffers[i].data, copy.size_bytes);
  }
  return true;
}

[[gnu::always_inline]] inline uint32_t TakeSkipped(TapSite& site, const Sending& sending) {
  if (!sending.skipped) [[likely]]
    return site.throttle->TakeSkipped(sending.device_ordinal);
  return *sending.skipped + site.throttle->TakeSkipped(sending.device_ordinal, Throttle::Place::kUpstream);
}

// Returns the count of skipped records for the queue's entry. AdmittedRows has taken the throttle's count for each row;
// what the throttle counts now comes behind the rows.
[[gnu::always_inline]] inline uint32_t SkippedBefore(TapSite& site, const Sending& sending) {
  if (sending.rows > 0 && !site.throttle->AdmitsAll()) [[unlikely]]
    return sending.skipped.value_or(0);
  return TakeSkipped(site, sending);
}

// Adds the count of skipped records to the next record, because this one was not sent.
void PutSkippedBack(TapSite& site, const Sending& sending, uint32_t count) {
  const auto place = sending.skipped ? Throttle::Place::kUpstream : Throttle::Place::kInProgram;
  site.throttle->AddSkipped(count, sending.device_ordinal, place);
}

// Returns false if there is no memory.
[[gnu::always_inline]] inline bool FillRecord(RecordHeader& header, TapSite& site, const Sending& sending) {
  header.num_buffers = static_cast<uint32_t>(sending.buffers.size());
  header.site = &site;
  header.run_id = sending.run_id;
  header.ticks = Ticks();
  header.device_ordinal = sending.device_ordinal;
  header.skipped = SkippedBefore(site, sending);
  header.step = sending.rows > 0 ? sending.rows : sending.step.value_or(0);
  if (CopyBuffers(header, sending.buffers.data())) [[likely]]
    return true;
  PutSkippedBack(site, sending, header.skipped - sending.skipped.value_or(0));  // NotTaken puts back the rest
  return false;
}

[[gnu::always_inline]] inline RecordKind KindOf(const Sending& sending) {
  return sending.rows > 0 ? RecordKind::kRows : RecordKind::kValue;
}

// Asks the site's senders and throttle, and counts a record that the throttle leaves out.
[[gnu::always_inline]] inline bool IsAdmitted(TapSite& site, int32_t device_ordinal, std::optional<int64_t> step,
                                              Throttle::Place place = Throttle::Place::kInProgram) {
  if (!site.senders.Admits(device_ordinal)) return false;
  if (site.throttle->Admit(device_ordinal, step, place)) [[likely]]
    return true;
  site.callback->stats().skips.fetch_add(1, std::memory_order_relaxed);
  return false;
}

[[gnu::noinline, gnu::cold]] void RecordRoomWait(const ProfileSpan& span, const Callback& callback,
                                                 int32_t device_ordinal) {
  span.End(EventOf(ProfileKind::kRoomWait, callback, device_ordinal, span.session()));
}

[[gnu::noinline, gnu::cold]] ProfileEvent EventOfTap(const ProfileSpan& span, ProfileKind kind, const TapSite& site,
                                                     const Sending& sending) {
  ProfileEvent event = EventOf(kind, *site.callback, sending.device_ordinal, span.session());
  event.bytes = TotalBytes(sending.buffers);
  return event;
}

}  // namespace

Delivery& Delivery::Get() {
  static Delivery* const delivery = new Delivery;  // leaked: programs may run during static destruction
  return *delivery;
}

Delivery::Delivery() = default;
Delivery::~Delivery() = default;

Status Delivery::Configure(const DeliveryOptions& options) {
  if (options.queue_bytes < kMinQueueBytes) {
    return InvalidArgument(Cat("queue_bytes must be at least ", kMinQueueBytes, ", got ", options.queue_bytes));
  }
  if (options.python_threads < 1 || options.python_threads > kMaxPythonThreads) {
    return InvalidArgument(Cat("delivery_threads must be 1 to 64, got ", options.python_threads));
  }
  MutexLock lock(mutex_);
  options_ = options;
  for (auto& [key, channel] : channels_) channel->queue->SetCapacity(options.queue_bytes);
  return OkStatus();
}

uint64_t Delivery::queue_bytes() const {
  MutexLock lock(mutex_);
  return options_.queue_bytes;
}

void Delivery::SetGate(Worker worker, BatchGate gate) {
  MutexLock lock(mutex_);
  gates_[static_cast<size_t>(worker)] = gate;
}

Delivery::Channel* Delivery::ChannelFor(Worker worker, int32_t device_ordinal) {
  Channel* channel = DirectSlot(worker, device_ordinal).load(std::memory_order_acquire);
  if (channel != nullptr && channel->device_ordinal == device_ordinal) [[likely]]
    return channel;
  return AddChannel(worker, device_ordinal);
}

Delivery::Channel* Delivery::ExistingChannel(Worker worker, int32_t device_ordinal) const {
  Channel* channel = DirectSlot(worker, device_ordinal).load(std::memory_order_acquire);
  if (channel != nullptr && channel->device_ordinal == device_ordinal) return channel;
  MutexLock lock(mutex_);
  const auto it = channels_.find({static_cast<int>(worker), device_ordinal});
  return it == channels_.end() ? nullptr : it->second.get();
}

Delivery::Channel* Delivery::AddChannel(Worker worker, int32_t device_ordinal) {
  const auto worker_index = static_cast<size_t>(worker);
  MutexLock lock(mutex_);
  const std::pair<int, int32_t> key = {static_cast<int>(worker), device_ordinal};
  auto at = channels_.find(key);
  if (at == channels_.end()) {
    const int limit = worker == Worker::kPython ? options_.python_threads : 1;
    const auto index = static_cast<size_t>(std::max(device_ordinal, 0) % limit);
    auto& threads = threads_[worker_index];
    while (threads.size() <= index) {
      const std::string name = Cat("callout-", WorkerName(worker), threads.size());
      threads.push_back(std::make_unique<DeliveryThread>(name.substr(0, 15), gates_[worker_index], errors_));
    }
    DeliveryThread* thread = threads[index].get();
    auto channel = std::make_unique<Channel>(
        Channel{thread->AddQueue(options_.queue_bytes, {static_cast<uint8_t>(worker), device_ordinal}), thread,
                WorkerName(worker), device_ordinal});
    at = channels_.emplace(key, std::move(channel)).first;
    if (closed_.load(std::memory_order_acquire)) {
      at->second->queue->Close();  // Shutdown closed the queues before this one existed
    } else {
      thread->Start();
    }
  }
  Channel* channel = at->second.get();
  auto& slot = DirectSlot(worker, device_ordinal);
  // If two devices share a slot, the first keeps it.
  if (slot.load(std::memory_order_relaxed) == nullptr) slot.store(channel, std::memory_order_release);
  return channel;
}

std::vector<std::pair<NamedQueueStats, Delivery::Channel*>> Delivery::Channels() const {
  std::vector<std::pair<NamedQueueStats, Channel*>> channels;
  MutexLock lock(mutex_);
  for (const auto& [key, channel] : channels_) {
    channels.push_back({{static_cast<Worker>(key.first), key.second, channel->queue->Stats()}, channel.get()});
  }
  return channels;
}

bool Delivery::CountDrop(TapSite& site, BoundedQueue::Outcome outcome, uint32_t count) {
  site.callback->stats().drops.fetch_add(count, std::memory_order_relaxed);
  if (outcome == BoundedQueue::Outcome::kClosed) refused_.fetch_add(count, std::memory_order_relaxed);
  return outcome == BoundedQueue::Outcome::kFull && site.policy == OverflowPolicy::kFail;
}

bool Delivery::Refuse(TapSite& site, int32_t device_ordinal, BoundedQueue::Outcome outcome) {
  site.throttle->AddSkipped(1, device_ordinal);
  return CountDrop(site, outcome);
}

bool Delivery::Admit(TapSite& site, int32_t device_ordinal, std::optional<int64_t> step, Throttle::Place place) {
  return IsAdmitted(site, device_ordinal, step, place);
}

Result<Inspector::Send> Delivery::Inspect(TapSite& site, const Sending& sending) {
  std::span<const callout_buffer> buffers = sending.buffers;
  const std::span<const int64_t> offsets = TakeOffsets(site.info, buffers);
  const Probe probe(Activity::kCall, *site.callback, sending.device_ordinal, sending.run_id, Probe::Timing::kSampled);
  Result<Inspector::Send> send = site.inspector->Inspect({.site = &site.info,
                                                          .buffers = buffers,
                                                          .offsets = offsets,
                                                          .device_ordinal = sending.device_ordinal,
                                                          .run_id = sending.run_id,
                                                          .step = sending.step,
                                                          .skipped = TakeSkipped(site, sending)});
  probe.Over(TotalBytes(buffers), !send.ok());
  return send;
}

bool Delivery::Passes(TapSite& site, std::span<const callout_buffer> value) {
  if (site.inspector == nullptr || !site.senders.AdmitsAll() || !site.throttle->AdmitsAll()) return false;
  CallbackStats& stats = site.callback->stats();
  if (Stopwatch::IsDue(stats)) [[unlikely]]
    return false;
  (void)TakeOffsets(site.info, value);
  if (!site.inspector->Passes(value)) return false;
  stats.Count(TotalBytes(value));
  return true;
}

Status Delivery::Push(TapSite& site, const Sending& sending) {
  if (site.has_rows) [[unlikely]]
    return Enqueue(site, sending);
  if (!IsAdmitted(site, sending.device_ordinal, sending.step)) return OkStatus();
  return PushAdmitted(site, sending);
}

Status Delivery::PushAdmitted(TapSite& site, const Sending& sending) {
  if (site.inspector == nullptr) [[likely]]
    return Enqueue(site, sending);
  CALLOUT_ASSIGN_OR_RETURN(const auto send, Inspect(site, sending));
  if (send == Inspector::Send::kNothing) return OkStatus();
  Sending seen = sending;
  if (send == Inspector::Send::kNotice) seen.buffers = {};
  return Enqueue(site, seen);
}

Status Delivery::Enqueue(TapSite& site, const Sending& sending) {
  if (ProcessIsForkedChild()) [[unlikely]]
    return ForkedChildError();
  if (site.has_rows && sending.rows == 0) [[unlikely]]
    return EnqueueRows(site, sending);
  if (closed_.load(std::memory_order_acquire)) [[unlikely]] {
    return NotTaken(site, sending, BoundedQueue::Outcome::kClosed);
  }
  Channel* channel = ChannelFor(site.callback->worker(), sending.device_ordinal);
  return PushTo(*channel, site, sending);
}

[[gnu::noinline, gnu::cold]] BoundedQueue::Outcome Delivery::WaitForRoom(Channel& channel, const Callback& callback,
                                                                         const RecordSize& size, const Sending& sending,
                                                                         RecordHeader** header) {
  using WhenFull = BoundedQueue::WhenFull;
  const InFlightScope in_flight(Activity::kWaitingForRoom, callback.id(), sending.device_ordinal, sending.run_id);
  const ProfileSpan wait;
  // A delivery thread that waited for room would wait for itself.
  const bool exceeds = DeliveryThread::IsCurrent() || sending.patience == Patience::kComesAgain;
  const WhenFull when_full = exceeds ? WhenFull::kExceed : WhenFull::kWait;
  const auto outcome =
      channel.queue->Reserve(KindOf(sending), size.bytes, size.charged, when_full, header, std::max(sending.rows, 1U));
  if (wait.on()) RecordRoomWait(wait, callback, sending.device_ordinal);
  return outcome;
}

// Reserves room for a record, and waits for room if the policy says so.
[[gnu::always_inline]] inline BoundedQueue::Outcome Delivery::TakeRoom(Channel& channel, const TapSite& site,
                                                                       const Sending& sending, RecordHeader** header) {
  using WhenFull = BoundedQueue::WhenFull;
  const RecordSize size = MeasureRecord(sending.buffers);
  const auto outcome = channel.queue->Reserve(KindOf(sending), size.bytes, size.charged, WhenFull::kGiveUp, header,
                                              std::max(sending.rows, 1U));
  const bool may_wait = sending.patience == Patience::kWaits || sending.rows > 0;
  const bool waits = site.policy == OverflowPolicy::kBlock && may_wait;
  if (outcome == BoundedQueue::Outcome::kFull && waits) [[unlikely]]
    return WaitForRoom(channel, *site.callback, size, sending, header);
  return outcome;
}

[[gnu::noinline, gnu::cold]] Status Delivery::NotTaken(TapSite& site, const Sending& sending,
                                                       BoundedQueue::Outcome outcome) {
  uint32_t count = std::max(sending.rows, 1U);
  for (const RowsOfTap& tap : sending.taps) {
    if (tap.site == &site) count = tap.rows.count();
  }
  if (sending.patience == Patience::kComesAgain) {
    // The sender still has the record, and counts it when it gives up.
    if (outcome == BoundedQueue::Outcome::kClosed) return Unavailable("the tap queue is closed");
    const bool waits = site.policy == OverflowPolicy::kBlock;
    if (outcome == BoundedQueue::Outcome::kFull && waits) return Unavailable("the tap queue is full");
  }
  // An inspector has already counted the record, and the skipped records before it.
  if (site.inspector == nullptr) PutSkippedBack(site, sending, sending.skipped.value_or(0) + count);
  for (const RowsOfTap& tap : sending.taps) {
    if (tap.site != &site) (void)CountDrop(*tap.site, outcome, tap.rows.count());
  }
  const bool fails = CountDrop(site, outcome, count);
  if (outcome == BoundedQueue::Outcome::kNoMemory) return OutOfMemory(TotalBytes(sending.buffers), "a tap's value");
  if (!fails) return OkStatus();
  return ResourceExhausted(Cat("the tap queue is full and the tap was made with on_full=\"fail\": no room for the ",
                               MeasureRecord(sending.buffers).charged, " bytes of its record. ", DescribeQueues()));
}

Status Delivery::PushTo(Channel& channel, TapSite& site, const Sending& sending) {
  const ProfileSpan span;
  RecordHeader* header = nullptr;
  const auto outcome = TakeRoom(channel, site, sending, &header);
  if (outcome != BoundedQueue::Outcome::kTaken) [[unlikely]] {
    Status status = NotTaken(site, sending, outcome);
    if (span.on() && status.code() != StatusCode::kUnavailable)
      span.End(EventOfTap(span, ProfileKind::kDrop, site, sending));
    return status;
  }
  const bool filled = FillRecord(*header, site, sending);
  std::optional<ProfileEvent> event;
  if (span.on()) [[unlikely]] {
    event = EventOfTap(span, filled ? ProfileKind::kTap : ProfileKind::kDrop, site, sending);
    event->queued = static_cast<int64_t>(header->ticks);
    event->level = channel.queue->Stats().pending_bytes;
    event->flow = FlowOf(event->worker, sending.device_ordinal, header->sequence);
  }
  channel.queue->Commit(header);  // after this the consumer may have destroyed the record
  channel.thread->StartIfParked();
  if (event) [[unlikely]]
    span.End(*event);
  if (!filled) [[unlikely]]
    return NotTaken(site, sending, BoundedQueue::Outcome::kNoMemory);
  if (sending.queued != nullptr) [[unlikely]]
    *sending.queued = true;
  return OkStatus();
}

DeliveryErrorReport Delivery::TakeErrors() { return errors_.Take(); }

void Delivery::AddError(const Callback& callback, int32_t device_ordinal, const Status& status) {
  errors_.Add(callback, device_ordinal, status);
}

const char* WorkerName(Worker worker) { return worker == Worker::kPython ? "python" : "native"; }

std::vector<NamedQueueStats> Delivery::QueueStatistics() const {
  std::vector<NamedQueueStats> all;
  for (const auto& [stats, channel] : Channels()) all.push_back(stats);
  if (const Upstream* const source = upstream()) {
    for (const UpstreamStats& above : source->Statistics()) {
      const auto at = std::find_if(all.begin(), all.end(), [&](const NamedQueueStats& queue) {
        return queue.worker == above.worker && queue.device_ordinal == above.device_ordinal;
      });
      // The device's first record may not have reached a queue yet, so there may be no queue.
      if (at != all.end()) {
        at->upstream = above;
        continue;
      }
      all.push_back({above.worker, above.device_ordinal, {}, above});
    }
  }
  return all;
}

std::string Delivery::DescribeQueues() const {
  std::string text = "Queues:";
  const auto all = QueueStatistics();
  if (all.empty()) text += " none";
  for (const NamedQueueStats& q : all) {
    text += Cat(&q == all.data() ? " " : "; ", WorkerName(q.worker), " device ", q.device_ordinal, ": ",
                q.stats.records - q.stats.delivered, " records, ", q.stats.pending_bytes, " of ",
                q.stats.capacity_bytes, " bytes");
    if (q.upstream.capacity_bytes == 0) continue;
    text += Cat(", ", q.upstream.records, " more on their way from the device, ", q.upstream.bytes, " of ",
                q.upstream.capacity_bytes, " bytes");
  }
  return text;
}

int Delivery::RunningThreads() const {
  const Upstream* const source = upstream();
  int running = source != nullptr ? source->RunningThreads() : 0;
  MutexLock lock(mutex_);
  for (const auto& worker : threads_) {
    for (const auto& thread : worker) running += thread->running() ? 1 : 0;
  }
  return running;
}

}  // namespace callout::internal
