// SPDX-License-Identifier: Apache-2.0
#include "delivery/delivery.h"

#include <algorithm>
#include <cstring>

#include "base/block_pool.h"
#include "base/process_state.h"
#include "base/ticks.h"
#include "registry/in_flight.h"

namespace callout::internal {
namespace {

// Buffers up to this size are copied into the queue's own memory; the receiver copies them once more if it keeps them.
// A second copy of 4 KB costs less than a block of its own.
constexpr uint64_t kInlineBytes = 4096;

const char* LaneName(Lane lane) { return lane == Lane::kPython ? "python" : "native"; }

struct RecordSize {
  size_t bytes;
  uint64_t charged;
};

RecordSize MeasureRecord(const callout_buffer* buffers, uint32_t num_buffers) {
  size_t bytes = sizeof(RecordHeader) + num_buffers * (sizeof(callout_buffer) + sizeof(void*));
  size_t inline_bytes = 0;
  uint64_t charged = 0;
  for (uint32_t i = 0; i < num_buffers; ++i) {
    bytes += buffers[i].rank * sizeof(int64_t);
    charged += buffers[i].size_bytes;
    if (buffers[i].size_bytes <= kInlineBytes) inline_bytes += AlignUp(buffers[i].size_bytes, 16);
  }
  bytes = AlignUp(bytes, 16) + inline_bytes;
  return {bytes, charged + bytes - inline_bytes};
}

void FillRecord(RecordHeader& header, const callout_buffer* buffers) {
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
    } else {
      block = nullptr;
      copy.data = data;
      data += AlignUp(copy.size_bytes, 16);
    }
    if (copy.size_bytes > 0) std::memcpy(copy.data, buffers[i].data, copy.size_bytes);
  }
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
    return InvalidArgument("queue_bytes must be at least " + std::to_string(kMinQueueBytes) + ", got " +
                           std::to_string(options.queue_bytes));
  }
  if (options.python_threads < 1 || options.python_threads > kMaxPythonThreads) {
    return InvalidArgument("delivery_threads must be 1 to 64, got " + std::to_string(options.python_threads));
  }
  MutexLock lock(mutex_);
  options_ = options;
  for (auto& [key, channel] : channels_) channel->queue->SetCapacity(options.queue_bytes);
  return OkStatus();
}

void Delivery::SetGate(Lane lane, BatchGate gate) {
  MutexLock lock(mutex_);
  gates_[static_cast<size_t>(lane)] = gate;
}

Delivery::Channel* Delivery::ChannelFor(Lane lane, int32_t device_ordinal) {
  Channel* channel = DirectSlot(lane, device_ordinal).load(std::memory_order_acquire);
  if (channel != nullptr && channel->device_ordinal == device_ordinal) [[likely]]
    return channel;
  return AddChannel(lane, device_ordinal);
}

Delivery::Channel* Delivery::ExistingChannel(Lane lane, int32_t device_ordinal) const {
  Channel* channel = DirectSlot(lane, device_ordinal).load(std::memory_order_acquire);
  if (channel != nullptr && channel->device_ordinal == device_ordinal) return channel;
  MutexLock lock(mutex_);
  const auto it = channels_.find({static_cast<int>(lane), device_ordinal});
  return it == channels_.end() ? nullptr : it->second.get();
}

Delivery::Channel* Delivery::AddChannel(Lane lane, int32_t device_ordinal) {
  const auto lane_index = static_cast<size_t>(lane);
  MutexLock lock(mutex_);
  auto& channel = channels_[{static_cast<int>(lane), device_ordinal}];
  if (channel == nullptr) {
    const int limit = lane == Lane::kPython ? options_.python_threads : 1;
    const auto index = static_cast<size_t>(std::max(device_ordinal, 0) % limit);
    auto& threads = threads_[lane_index];
    while (threads.size() <= index) {
      const std::string name = std::string("callout-") + LaneName(lane) + std::to_string(threads.size());
      threads.push_back(std::make_unique<DeliveryThread>(name.substr(0, 15), gates_[lane_index], errors_));
    }
    DeliveryThread* thread = threads[index].get();
    channel = std::make_unique<Channel>(
        Channel{thread->AddQueue(options_.queue_bytes), thread, LaneName(lane), device_ordinal});
    thread->Start();
  }
  auto& slot = DirectSlot(lane, device_ordinal);
  // Two devices that share a slot: the first keeps it.
  if (slot.load(std::memory_order_relaxed) == nullptr) slot.store(channel.get(), std::memory_order_release);
  return channel.get();
}

Status Delivery::OutcomeStatus(TapSite& site, BoundedQueue::Outcome outcome) {
  site.callback->stats().drops.fetch_add(1, std::memory_order_relaxed);
  if (outcome == BoundedQueue::Outcome::kClosed) {
    refused_.fetch_add(1, std::memory_order_relaxed);
  } else if (site.policy == OverflowPolicy::kFail) {
    return ResourceExhausted("the tap queue is full and the tap was made with on_full=\"fail\". " + DescribeQueues());
  }
  return OkStatus();
}

Status Delivery::Push(TapSite& site, const callout_buffer* buffers, uint32_t num_buffers, int32_t device_ordinal,
                      int64_t run_id) {
  if (!site.throttle->Admit()) {
    site.callback->stats().skips.fetch_add(1, std::memory_order_relaxed);
    return OkStatus();
  }
  if (ProcessIsForkedChild()) [[unlikely]] {
    return FailedPrecondition(
        "ForkError: this process was forked from one that used Callout, and its delivery threads "
        "stayed there. Start workers with the 'spawn' method instead");
  }
  if (closed_.load(std::memory_order_acquire)) [[unlikely]] {
    return OutcomeStatus(site, BoundedQueue::Outcome::kClosed);
  }
  Channel* channel = ChannelFor(site.callback->lane(), device_ordinal);
  return PushTo(*channel, site, buffers, num_buffers, device_ordinal, run_id);
}

Status Delivery::PushTo(Channel& channel, TapSite& site, const callout_buffer* buffers, uint32_t num_buffers,
                        int32_t device_ordinal, int64_t run_id) {
  using WhenFull = BoundedQueue::WhenFull;
  const RecordSize size = MeasureRecord(buffers, num_buffers);
  RecordHeader* header = nullptr;
  auto outcome = channel.queue->Reserve(RecordKind::kValue, size.bytes, size.charged, WhenFull::kGiveUp, &header);
  if (outcome == BoundedQueue::Outcome::kFull && site.policy == OverflowPolicy::kBlock) [[unlikely]] {
    const InFlightScope in_flight(Activity::kWaitingForRoom, site.callback->id(), device_ordinal, run_id);
    // A delivery thread that waited for room would wait for itself.
    const WhenFull when_full = DeliveryThread::IsCurrent() ? WhenFull::kExceed : WhenFull::kWait;
    outcome = channel.queue->Reserve(RecordKind::kValue, size.bytes, size.charged, when_full, &header);
  }
  if (outcome != BoundedQueue::Outcome::kTaken) [[unlikely]]
    return OutcomeStatus(site, outcome);
  header->num_buffers = num_buffers;
  header->site = &site;
  header->run_id = run_id;
  header->ticks = Ticks();
  header->device_ordinal = device_ordinal;
  FillRecord(*header, buffers);
  channel.queue->Commit(header);
  channel.thread->StartIfParked();
  return OkStatus();
}

void Delivery::Retire(std::unique_ptr<TapSite> site) {
  // In a forked child, or when the queues are closed, nobody will ever deliver: the site and its callback are leaked on
  // purpose, since destroying them may need an interpreter that is gone.
  if (ProcessIsForkedChild() || closed_.load(std::memory_order_acquire)) {
    (void)site.release();
    return;
  }
  std::vector<Channel*> used;
  for (auto& [stats, channel] : Channels()) {
    if (stats.lane == site->callback->lane() && channel->queue->taken() > 0) used.push_back(channel);
  }
  if (used.empty()) return;
  TapSite* raw = site.release();
  raw->retiring.store(static_cast<int>(used.size()), std::memory_order_release);
  for (Channel* channel : used) {
    RecordHeader* header = nullptr;
    const auto outcome = channel->queue->Reserve(RecordKind::kRetireSite, sizeof(RecordHeader), 0,
                                                 BoundedQueue::WhenFull::kExceed, &header);
    if (outcome != BoundedQueue::Outcome::kTaken) continue;  // closed meanwhile: leaked, as above
    header->num_buffers = 0;
    header->site = raw;
    channel->queue->Commit(header);
    channel->thread->StartIfParked();
  }
}

std::vector<std::pair<NamedQueueStats, Delivery::Channel*>> Delivery::Channels() const {
  std::vector<std::pair<NamedQueueStats, Channel*>> channels;
  MutexLock lock(mutex_);
  for (const auto& [key, channel] : channels_) {
    channels.push_back({{static_cast<Lane>(key.first), key.second, channel->queue->Stats()}, channel.get()});
  }
  return channels;
}

std::vector<std::string> Delivery::Drain(std::chrono::steady_clock::time_point deadline) {
  std::vector<std::string> outstanding;
  // Nobody delivers any more; what was left then has been counted.
  if (closed_.load(std::memory_order_acquire)) return outstanding;
  std::vector<std::pair<Channel*, uint64_t>> goals;
  for (const auto& [stats, channel] : Channels()) {
    goals.push_back({channel, channel->queue->taken()});
    channel->thread->Hurry();
  }
  for (const auto& [channel, ticket] : goals) {
    if (channel->thread->WaitFor(*channel->queue, ticket, deadline)) continue;
    const QueueStats now = channel->queue->Stats();
    outstanding.push_back(std::to_string(now.records - now.delivered) + " records of the " + channel->name +
                          " queue of device " + std::to_string(channel->device_ordinal));
  }
  return outstanding;
}

void Delivery::DrainDevice(const Callback& caller, int32_t device_ordinal, int64_t run_id) {
  if (DeliveryThread::IsCurrent() || ProcessIsForkedChild()) return;
  for (const Lane lane : {Lane::kPython, Lane::kNative}) {
    Channel* channel = ExistingChannel(lane, device_ordinal);
    if (channel == nullptr) continue;
    const uint64_t ticket = channel->queue->taken();
    if (channel->queue->delivered() >= ticket) continue;
    const InFlightScope in_flight(Activity::kWaitingForTaps, caller.id(), device_ordinal, run_id);
    channel->thread->Hurry();
    // In slices, since a shutdown ends deliveries for ever.
    constexpr std::chrono::milliseconds kSlice{50};
    while (!channel->thread->WaitFor(*channel->queue, ticket, std::chrono::steady_clock::now() + kSlice)) {
      if (closed_.load(std::memory_order_acquire)) return;
    }
  }
}

DeliveryErrorReport Delivery::TakeErrors() { return errors_.Take(); }

void Delivery::Park() {
  std::vector<DeliveryThread*> threads;
  {
    MutexLock lock(mutex_);
    if (closed_.load(std::memory_order_acquire)) return;
    for (const auto& lane : threads_) {
      for (const auto& thread : lane) threads.push_back(thread.get());
    }
  }
  for (DeliveryThread* thread : threads) thread->Park();
}

void Delivery::AddError(const Callback& callback, int32_t device_ordinal, const Status& status) {
  errors_.Add(callback, device_ordinal, status);
}

uint64_t Delivery::Shutdown(std::chrono::steady_clock::time_point deadline) {
  (void)Drain(deadline);
  closed_.store(true, std::memory_order_release);
  uint64_t undelivered = refused_.load(std::memory_order_relaxed);
  for (const auto& [stats, channel] : Channels()) {
    undelivered += static_cast<uint64_t>(channel->queue->Close());
    // A thread that is still inside a callback keeps running: it cannot be ended from outside, and it finds its queues
    // closed and the interpreter's gate shut when it comes back.
    const auto grace = std::max(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    if (channel->thread->Stop(grace)) {
      undelivered += channel->queue->CountValues();
    } else {
      const QueueStats now = channel->queue->Stats();
      undelivered += now.records - now.delivered;
    }
  }
  return undelivered;
}

std::vector<NamedQueueStats> Delivery::QueueStatistics() const {
  std::vector<NamedQueueStats> all;
  for (const auto& [stats, channel] : Channels()) all.push_back(stats);
  return all;
}

std::string Delivery::DescribeQueues() const {
  std::string text = "Queues:";
  const auto all = QueueStatistics();
  if (all.empty()) text += " none";
  for (const NamedQueueStats& q : all) {
    text += std::string(&q == all.data() ? " " : "; ") + LaneName(q.lane) + " device " +
            std::to_string(q.device_ordinal) + ": " + std::to_string(q.stats.records - q.stats.delivered) +
            " records, " + std::to_string(q.stats.pending_bytes) + " of " + std::to_string(q.stats.capacity_bytes) +
            " bytes";
  }
  return text;
}

int Delivery::RunningThreads() const {
  MutexLock lock(mutex_);
  int running = 0;
  for (const auto& lane : threads_) {
    for (const auto& thread : lane) running += thread->running() ? 1 : 0;
  }
  return running;
}

}  // namespace callout::internal
