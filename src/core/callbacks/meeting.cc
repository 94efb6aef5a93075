// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/meeting.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/fork_mutex.h"
#include "core/base/log.h"
#include "core/base/pause.h"
#include "core/base/spare_threads.h"
#include "core/base/thread_annotations.h"
#include "core/base/ticks.h"
#include "core/callbacks/in_flight.h"
#include "core/callbacks/run_context.h"

namespace callout::internal {
namespace {

// Devices do the same, so the others are often this close.
constexpr uint64_t kBriefMicroseconds = 8;
// A thread that was told, and so had to be woken, comes this much later; who did not wait for it would have to be woken
// himself at the next call, and so on at each.
constexpr uint64_t kPatientMicroseconds = 64;
// Meetings of a place after one at which patience was in vain. The others are slow, or need this very thread.
constexpr int kBriefMeetings = 32;
constexpr int kPausesBetweenLooks = 16;

std::vector<void*> Pointers(std::span<const callout_buffer> buffers) {
  std::vector<void*> pointers(buffers.size());
  std::transform(buffers.begin(), buffers.end(), pointers.begin(),
                 [](const callout_buffer& buffer) { return buffer.data; });
  return pointers;
}

std::string List(const std::vector<size_t>& indices) {
  std::string text = indices.size() == 1 ? "device " : "devices ";
  constexpr size_t kMost = 8;
  for (size_t i = 0; i < std::min(indices.size(), kMost); ++i) {
    text.append(i > 0 ? ", " : "").append(std::to_string(indices[i]));
  }
  return indices.size() > kMost ? text + ", ..." : text;
}

}  // namespace

Meeting::Meeting(std::shared_ptr<MeetingPlace> place, int64_t run_id)
    : place_(std::move(place)), run_id_(run_id), seats_(place_->num_devices()) {}

void Meeting::Tell(std::vector<Waiting> waiting) {
  for (Waiting& one : waiting) {
    const auto tell = [meeting = shared_from_this(), told = std::move(one.told), modes = one.modes] {
      std::fenv_t own;
      (void)std::fegetenv(&own);
      (void)std::fesetenv(&modes);
      told(meeting->outcome());
      (void)std::fesetenv(&own);
    };
    try {
      RunOnSpareThread(tell);
    } catch (...) {  // no more threads, or no memory: late, but told
      tell();
    }
  }
}

void Meeting::End(Status outcome) {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(place_->mutex_);
    if (over_.load(std::memory_order_relaxed)) return;
    place_->Close(this);
    outcome_ = std::move(outcome);
    over_.store(true, std::memory_order_release);  // pairs with the acquire in is_over
    waiting.swap(waiting_);
  }
  if (waiting.empty()) return;
  WaitingRoom::Get().Leave(this);
  Tell(std::move(waiting));
}

bool Meeting::Close() {
  MutexLock lock(place_->mutex_);
  if (count_ == seats_.size()) return false;
  place_->Close(this);
  return true;
}

bool Meeting::GiveUp(const Status& reason) {
  if (!Close()) return false;
  End(reason);
  return true;
}

bool Meeting::WaitBriefly() const {
  // With fewer processors the others come all the later for it.
  static const size_t processors = std::thread::hardware_concurrency();
  if (seats_.size() > processors) return is_over();
  const uint64_t start = Ticks(), of_microseconds = TicksOfMicroseconds();
  const bool is_patient = place_->IsPatient();
  const uint64_t brief_end = start + kBriefMicroseconds * of_microseconds;
  const uint64_t end = is_patient ? start + kPatientMicroseconds * of_microseconds : brief_end;
  const bool may_share = place_->may_share_processor_.load(std::memory_order_relaxed);
  bool has_yielded = false;
  for (uint64_t now = start; now < end; now = Ticks()) {
    if (now > brief_end || (may_share && now > start)) {
      std::this_thread::yield();
      has_yielded = true;
    }
    for (int i = 0; i < kPausesBetweenLooks; ++i) {
      if (is_over()) {
        if (has_yielded != may_share) place_->may_share_processor_.store(has_yielded, std::memory_order_relaxed);
        return true;
      }
      Pause();
    }
  }
  if (is_patient) place_->brief_meetings_.store(kBriefMeetings, std::memory_order_relaxed);
  return is_over();
}

const Status& Meeting::AwaitOutcome() const {
  while (!WaitBriefly()) std::this_thread::yield();
  return outcome();
}

bool Meeting::CallLater(std::function<void(const Status&)> told) {
  Waiting one{std::move(told), {}};
  (void)std::fegetenv(&one.modes);
  {
    MutexLock lock(place_->mutex_);
    if (over_.load(std::memory_order_relaxed)) return false;
    waiting_.push_back(std::move(one));
  }
  std::optional<Status> failed;
  try {
    failed = WaitingRoom::Get().Enter(shared_from_this());
  } catch (...) {  // nobody looks after it; `told` will be called all the same
    return true;
  }
  if (failed) (void)GiveUp(*failed);
  return true;
}

std::string Meeting::Describe() const {
  std::vector<size_t> here, missing;
  {
    MutexLock lock(place_->mutex_);
    for (size_t i = 0; i < seats_.size(); ++i) (seats_[i].taken ? here : missing).push_back(i);
  }
  if (missing.empty()) return {};
  return "callback '" + place_->name() + "': " + List(here) + (here.size() == 1 ? " waits for " : " wait for ") +
         List(missing);
}

bool MeetingPlace::IsPatient() {
  const int left = brief_meetings_.load(std::memory_order_relaxed);
  if (left > 0) brief_meetings_.store(left - 1, std::memory_order_relaxed);
  return left == 0;
}

std::shared_ptr<Meeting> MeetingPlace::OpenMeeting(const Guest& guest) {
  const auto place = static_cast<size_t>(guest.index);
  for (const std::shared_ptr<Meeting>& meeting : open_) {
    if (meeting->run_id_ == guest.run_id && !meeting->seats_[place].taken) return meeting;
  }
  open_.push_back(std::make_shared<Meeting>(shared_from_this(), guest.run_id));
  return open_.back();
}

void MeetingPlace::Close(const Meeting* meeting) {
  std::erase_if(open_, [meeting](const std::shared_ptr<Meeting>& one) { return one.get() == meeting; });
}

Result<MeetingPlace::Joined> MeetingPlace::Join(const Guest& guest) {
  if (guest.index < 0 || static_cast<size_t>(guest.index) >= num_devices_) {
    return InvalidArgument("callout: callback '" + name_ + "': the program's device " + std::to_string(guest.index) +
                           " came to a call of " + std::to_string(num_devices_));
  }
  if (std::optional<Status> failed = WaitingRoom::Get().FindFailure(guest.run_id)) return std::move(*failed);
  Meeting::Seat seat = {true, guest.device_ordinal, Pointers(guest.args), Pointers(guest.results)};
  MutexLock lock(mutex_);
  std::shared_ptr<Meeting> meeting = OpenMeeting(guest);
  meeting->seats_[static_cast<size_t>(guest.index)] = std::move(seat);
  const bool is_last = ++meeting->count_ == num_devices_;
  if (is_last) Close(meeting.get());
  return Joined{std::move(meeting), is_last};
}

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
