// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/waiting_room.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fork_mutex.h"
#include "core/base/log.h"
#include "core/base/spare_threads.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/in_flight.h"
#include "core/callbacks/run_context.h"

namespace callout::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kMostFailures = 1024;
constexpr int kIdleLooks = 8;  // then nobody watches until somebody comes

bool IsBusy(const std::vector<InFlight>& readings, int64_t launch_id) {
  const int64_t run_id = FindRun(launch_id).id;  // as callbacks see it
  return std::any_of(readings.begin(), readings.end(),
                     [run_id](const InFlight& reading) { return reading.run_id == run_id; });
}

// What other devices of the run are told.
Status Heard(const Status& failure) {
  return {failure.code(), "callout: another device of this run failed: " + std::string(failure.message())};
}

std::string Seconds(milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

struct WaitingRoom::State {
  struct Failure {
    int64_t run_id = 0;
    Status status;
    steady_clock::time_point when;
  };
  struct Waiter {
    std::shared_ptr<Meeting> meeting;
    steady_clock::time_point since;  // or when a device of the run was last seen in a callback
    bool reported = false;
  };

  ForkMutex mutex;
  std::condition_variable_any changed;
  std::vector<Waiter> waiters CALLOUT_GUARDED_BY(mutex);
  std::deque<Failure> failures CALLOUT_GUARDED_BY(mutex);  // the oldest first
  std::atomic<bool> has_failures{false};  // relaxed: a device that does not see it yet waits, and hears of it in Enter
  milliseconds limit CALLOUT_GUARDED_BY(mutex) = milliseconds(40'000);
  milliseconds memory CALLOUT_GUARDED_BY(mutex) = kFailureMemory;
  bool watched CALLOUT_GUARDED_BY(mutex) = false;
  int idle_looks CALLOUT_GUARDED_BY(mutex) = 0;

  std::optional<Status> Find(int64_t run_id) CALLOUT_REQUIRES(mutex) {
    if (run_id == 0) return std::nullopt;
    const auto oldest = steady_clock::now() - memory;
    while (!failures.empty() && failures.front().when < oldest) failures.pop_front();
    has_failures.store(!failures.empty(), std::memory_order_relaxed);
    for (const Failure& failure : failures) {
      if (failure.run_id == run_id) return failure.status;
    }
    return std::nullopt;
  }
};

WaitingRoom::WaitingRoom() : state_(new State) {}

WaitingRoom& WaitingRoom::Get() {
  static WaitingRoom* const room = new WaitingRoom;  // leaked: its thread may outlive static destruction
  return *room;
}

std::optional<Status> WaitingRoom::Enter(std::shared_ptr<Meeting> meeting) {
  bool watch = false;
  {
    MutexLock lock(state_->mutex);
    if (std::optional<Status> failed = state_->Find(meeting->run_id())) return failed;
    if (meeting->is_over()) return std::nullopt;  // and has left, or is about to find nothing
    const auto known = [&](const State::Waiter& waiter) { return waiter.meeting == meeting; };
    if (std::any_of(state_->waiters.begin(), state_->waiters.end(), known)) return std::nullopt;
    const auto since = meeting->since();
    state_->waiters.push_back({std::move(meeting), since});
    watch = !std::exchange(state_->watched, true);
  }
  if (!watch) return std::nullopt;
  try {
    RunOnSpareThread([this] { Watch(); });
  } catch (...) {  // no more threads, or no memory: whoever comes next tries again
    MutexLock lock(state_->mutex);
    state_->watched = false;
  }
  return std::nullopt;
}

void WaitingRoom::Leave(const Meeting* meeting) {
  MutexLock lock(state_->mutex);
  std::erase_if(state_->waiters, [meeting](const State::Waiter& waiter) { return waiter.meeting.get() == meeting; });
}

std::vector<std::shared_ptr<Meeting>> WaitingRoom::Remember(int64_t run_id, const Status& heard) {
  std::vector<std::shared_ptr<Meeting>> waiting;
  if (run_id == 0) return waiting;
  MutexLock lock(state_->mutex);
  if (state_->Find(run_id)) return waiting;  // the first counts
  if (state_->failures.size() == kMostFailures) state_->failures.pop_front();
  state_->failures.push_back({run_id, heard, steady_clock::now()});
  state_->has_failures.store(true, std::memory_order_relaxed);
  for (const State::Waiter& waiter : state_->waiters) {
    if (waiter.meeting->run_id() == run_id) waiting.push_back(waiter.meeting);
  }
  return waiting;
}

void WaitingRoom::NoteFailure(int64_t run_id, const Status& failure) {
  const Status heard = Heard(failure);
  for (const std::shared_ptr<Meeting>& meeting : Remember(run_id, heard)) (void)meeting->GiveUp(heard);
}

std::optional<Status> WaitingRoom::FindFailure(int64_t run_id) {
  if (!state_->has_failures.load(std::memory_order_relaxed)) [[likely]]
    return std::nullopt;
  MutexLock lock(state_->mutex);
  return state_->Find(run_id);
}

void WaitingRoom::SetLimit(milliseconds limit, milliseconds memory) {
  MutexLock lock(state_->mutex);
  state_->limit = limit;
  state_->memory = memory;
  state_->changed.notify_all();
}

void WaitingRoom::Watch() {
  while (WatchOnce()) {
  }
}

bool WaitingRoom::WatchOnce() {
  std::vector<std::shared_ptr<Meeting>> slow, late;
  milliseconds limit;
  {
    MutexLock lock(state_->mutex);
    state_->changed.wait_for(state_->mutex, std::clamp(state_->limit / 8, milliseconds(1), milliseconds(1000)));
    limit = state_->limit;
    state_->idle_looks = state_->waiters.empty() ? state_->idle_looks + 1 : 0;
    if (state_->idle_looks > kIdleLooks) return state_->watched = false;
    const std::vector<InFlight> readings = ReadInFlight();
    const auto now = steady_clock::now();
    for (State::Waiter& waiter : state_->waiters) {
      if (IsBusy(readings, waiter.meeting->run_id())) waiter.since = now;
      const auto age = now - waiter.since;
      if (age > limit) late.push_back(waiter.meeting);
      if (age > limit / 2 && !std::exchange(waiter.reported, true)) slow.push_back(waiter.meeting);
    }
  }
  for (const std::shared_ptr<Meeting>& meeting : slow) {
    const std::string waiting = meeting->Describe();
    if (waiting.empty()) continue;  // a call that takes long is the watchdog's
    Log(LogLevel::kWarning,
        "callout: " + waiting + ", for " + Seconds(limit / 2) + " now, run " + std::to_string(meeting->run_id()));
  }
  for (const std::shared_ptr<Meeting>& meeting : late) {
    const std::string waiting = meeting->Describe();
    if (waiting.empty()) continue;
    const Status status(StatusCode::kDeadlineExceeded,
                        "callout: " + waiting + ", which did not come within " + Seconds(limit));
    if (!meeting->Close()) continue;
    // Remembered before those of the meeting are told: what they do then may bring the device that did not come.
    const auto others = Remember(meeting->run_id(), Heard(status));
    meeting->End(status);
    for (const std::shared_ptr<Meeting>& other : others) (void)other->GiveUp(Heard(status));
  }
  return true;
}

}  // namespace callout::internal
