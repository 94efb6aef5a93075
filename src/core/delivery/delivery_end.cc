// SPDX-License-Identifier: Apache-2.0
//
// The parts of Delivery that end work: retiring sites, barriers, parking and shutdown.
#include <algorithm>
#include <exception>

#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/probe.h"
#include "core/delivery/delivery.h"

namespace callout::internal {
namespace {

// Waits for deliveries are cut into slices, because a shutdown may end deliveries for ever.
constexpr std::chrono::milliseconds kSlice{50};

}  // namespace

void Delivery::Retire(std::unique_ptr<TapSite> site) {
  if (Upstream* const source = upstream()) source->Retire(site);
  if (site != nullptr) RetireFromQueues(std::move(site));
}

void Delivery::RetireFromQueues(std::unique_ptr<TapSite> site) {
  // In a forked child, or after the queues are closed, no thread will ever deliver again. The site and its callback are
  // then leaked on purpose, since destroying them may need an interpreter that is gone.
  if (ProcessIsForkedChild() || closed_.load(std::memory_order_acquire)) {
    (void)site.release();
    return;
  }
  std::vector<Channel*> used;
  for (auto& [stats, channel] : Channels()) {
    if (stats.worker == site->callback->worker() && channel->queue->taken() > 0) used.push_back(channel);
  }
  if (used.empty()) return;
  TapSite* raw = site.release();
  raw->retiring.store(static_cast<int>(used.size()), std::memory_order_relaxed);  // each Commit publishes it
  for (Channel* channel : used) {
    RecordHeader* header = nullptr;
    const auto outcome = channel->queue->Reserve(RecordKind::kRetireSite, sizeof(RecordHeader), 0,
                                                 BoundedQueue::WhenFull::kExceed, &header);
    if (outcome != BoundedQueue::Outcome::kTaken) continue;  // closed by another thread: leaked, see above
    header->num_buffers = 0;
    header->site = raw;
    channel->queue->Commit(header);
    channel->thread->StartIfParkedOrLater();
  }
}

std::vector<std::string> Delivery::Drain(std::chrono::steady_clock::time_point deadline) {
  std::vector<std::string> outstanding;
  // No thread delivers any more. Shutdown has counted the remaining records, or they are the parent's.
  if (ProcessIsForkedChild() || closed_.load(std::memory_order_acquire)) return outstanding;
  if (Upstream* const source = upstream()) {
    outstanding = source->Flush(Upstream::kAllDevices, deadline);
    source->ReportFailures();
  }
  std::vector<std::pair<Channel*, uint64_t>> goals;
  for (const auto& [stats, channel] : Channels()) {
    const uint64_t ticket = channel->queue->taken();
    if (channel->queue->delivered() >= ticket) continue;  // its thread need not be woken
    goals.push_back({channel, ticket});
    channel->thread->Hurry();
  }
  for (const auto& [channel, ticket] : goals) {
    if (channel->thread->WaitFor(*channel->queue, ticket, deadline)) continue;
    const QueueStats now = channel->queue->Stats();
    outstanding.push_back(Cat(now.records - now.delivered, " records of the ", channel->name, " queue of device ",
                              channel->device_ordinal));
  }
  return outstanding;
}

void Delivery::AwaitUpstream(const Callback& caller, int32_t device_ordinal, int64_t run_id) {
  Upstream* const source = upstream();
  if (source == nullptr || DeliveryThread::IsCurrent() || ProcessIsForkedChild()) return;
  const InFlightScope in_flight(Activity::kWaitingForTaps, caller.id(), device_ordinal, run_id);
  while (!source->Flush(device_ordinal, std::chrono::steady_clock::now() + kSlice).empty()) {
    if (closed_.load(std::memory_order_acquire)) return;
  }
}

void Delivery::DrainDevice(const Callback& caller, int32_t device_ordinal, int64_t run_id) {
  if (DeliveryThread::IsCurrent() || ProcessIsForkedChild()) return;
  AwaitUpstream(caller, device_ordinal, run_id);
  for (const Worker worker : {Worker::kPython, Worker::kNative}) {
    Channel* channel = ExistingChannel(worker, device_ordinal);
    if (channel == nullptr) continue;
    const uint64_t ticket = channel->queue->taken();
    if (channel->queue->delivered() >= ticket) continue;
    const InFlightScope in_flight(Activity::kWaitingForTaps, caller.id(), device_ordinal, run_id);
    const ProfileSpan wait;
    channel->thread->Hurry();
    while (!channel->thread->WaitFor(*channel->queue, ticket, std::chrono::steady_clock::now() + kSlice)) {
      if (closed_.load(std::memory_order_acquire)) return;
    }
    if (wait.on()) wait.End(EventOf(ProfileKind::kTapWait, caller, device_ordinal, wait.session()));
  }
}

void Delivery::Park() {
  if (Upstream* const source = upstream(); source != nullptr && !closed_.load(std::memory_order_acquire)) {
    source->Park();
  }
  std::vector<DeliveryThread*> threads;
  {
    MutexLock lock(mutex_);
    if (closed_.load(std::memory_order_acquire)) return;
    for (const auto& worker : threads_) {
      for (const auto& thread : worker) threads.push_back(thread.get());
    }
  }
  for (DeliveryThread* thread : threads) thread->Park();
}

uint64_t Delivery::Shutdown(std::chrono::steady_clock::time_point deadline) {
  try {
    (void)Drain(deadline);
  } catch (const std::exception&) {  // no thread could deliver: the remaining records are counted below
  }
  closed_.store(true, std::memory_order_release);
  uint64_t undelivered = refused_.load(std::memory_order_relaxed);
  if (Upstream* const source = upstream()) undelivered += source->Close();
  for (const auto& [stats, channel] : Channels()) {
    undelivered += static_cast<uint64_t>(channel->queue->Close());
    // A thread that is still inside a callback keeps running, since no other thread can end it. When it comes back, it
    // finds its queues closed and the interpreter's gate shut.
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

}  // namespace callout::internal
