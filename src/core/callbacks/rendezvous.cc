// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/rendezvous.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/cat.h"
#include "core/base/fork_mutex.h"
#include "core/base/helper_threads.h"
#include "core/base/log.h"
#include "core/base/pause.h"
#include "core/base/thread_annotations.h"
#include "core/base/ticks.h"
#include "core/callbacks/in_flight.h"
#include "core/callbacks/run_context.h"

namespace callout::internal {
namespace {

// Devices run the same program, so the others often arrive within this time.
constexpr uint64_t kBriefMicroseconds = 8;
// A participant that sleeps has to be woken, and then arrives this much later at the next call. The others would then
// have to sleep and be woken, and so on at each call. So a participant waits this long before it sleeps.
constexpr uint64_t kPatientMicroseconds = 64;
// After a long wait in vain, this many rendezvous of the site wait briefly: the other devices are slow, or need this
// thread.
constexpr int kBriefRendezvous = 32;
constexpr int kPausesBetweenLooks = 16;

std::vector<void*> Pointers(std::span<const callout_buffer> buffers) {
  std::vector<void*> pointers(buffers.size());
  std::transform(buffers.begin(), buffers.end(), pointers.begin(),
                 [](const callout_buffer& buffer) { return buffer.data; });
  return pointers;
}

std::string List(const std::vector<size_t>& indices) {
  constexpr size_t kMost = 8;
  const auto shown = std::span(indices).first(std::min(indices.size(), kMost));
  return Cat(indices.size() == 1 ? "device " : "devices ", Join(shown, ", "), indices.size() > kMost ? ", ..." : "");
}

}  // namespace

Rendezvous::Rendezvous(std::shared_ptr<RendezvousSite> place, int64_t run_id)
    : place_(std::move(place)), run_id_(run_id), participants_(place_->num_devices()) {}

void Rendezvous::Tell(std::vector<Waiting> waiting) {
  for (Waiting& one : waiting) {
    const auto tell = [rendezvous = shared_from_this(), listener = std::move(one.listener), modes = one.modes] {
      std::fenv_t own;
      (void)std::fegetenv(&own);
      (void)std::fesetenv(&modes);
      listener(rendezvous->outcome());
      (void)std::fesetenv(&own);
    };
    try {
      RunOnHelperThread(tell);
    } catch (...) {  // no more threads, or no memory: this thread calls the listeners, one after the other
      tell();
    }
  }
}

void Rendezvous::End(Status outcome) {
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
  RendezvousMonitor::Get().Leave(this);
  Tell(std::move(waiting));
}

bool Rendezvous::Close() {
  MutexLock lock(place_->mutex_);
  if (count_ == participants_.size()) return false;
  place_->Close(this);
  return true;
}

bool Rendezvous::GiveUp(const Status& reason) {
  if (!Close()) return false;
  End(reason);
  return true;
}

bool Rendezvous::WaitBriefly() const {
  // With fewer processors than participants, spinning delays the others.
  static const size_t processors = std::thread::hardware_concurrency();
  if (participants_.size() > processors) return is_over();
  const uint64_t start = Ticks(), of_microseconds = TicksOfMicroseconds();
  const bool waits_long = place_->ShouldWaitLong();
  const uint64_t brief_end = start + kBriefMicroseconds * of_microseconds;
  const uint64_t end = waits_long ? start + kPatientMicroseconds * of_microseconds : brief_end;
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
  if (waits_long) place_->brief_rendezvous_.store(kBriefRendezvous, std::memory_order_relaxed);
  return is_over();
}

const Status& Rendezvous::AwaitOutcome() const {
  while (!WaitBriefly()) std::this_thread::yield();
  return outcome();
}

bool Rendezvous::CallLater(std::function<void(const Status&)> listener) {
  Waiting one{std::move(listener), {}};
  (void)std::fegetenv(&one.modes);
  {
    MutexLock lock(place_->mutex_);
    if (over_.load(std::memory_order_relaxed)) return false;
    waiting_.push_back(std::move(one));
  }
  std::optional<Status> failed;
  try {
    failed = RendezvousMonitor::Get().Enter(shared_from_this());
  } catch (...) {  // nobody watches it; the listener is called all the same
    return true;
  }
  if (failed) (void)GiveUp(*failed);
  return true;
}

std::string Rendezvous::Describe() const {
  std::vector<size_t> here, missing;
  {
    MutexLock lock(place_->mutex_);
    for (size_t i = 0; i < participants_.size(); ++i) (participants_[i].taken ? here : missing).push_back(i);
  }
  if (missing.empty()) return {};
  return "callback '" + place_->name() + "': " + List(here) + (here.size() == 1 ? " waits for " : " wait for ") +
         List(missing);
}

bool RendezvousSite::ShouldWaitLong() {
  const int left = brief_rendezvous_.load(std::memory_order_relaxed);
  if (left > 0) brief_rendezvous_.store(left - 1, std::memory_order_relaxed);
  return left == 0;
}

std::shared_ptr<Rendezvous> RendezvousSite::OpenRendezvous(const Participant& participant) {
  const auto place = static_cast<size_t>(participant.index);
  for (const std::shared_ptr<Rendezvous>& rendezvous : open_) {
    if (rendezvous->run_id_ == participant.run_id && !rendezvous->participants_[place].taken) return rendezvous;
  }
  open_.push_back(std::make_shared<Rendezvous>(shared_from_this(), participant.run_id));
  return open_.back();
}

void RendezvousSite::Close(const Rendezvous* rendezvous) {
  std::erase_if(open_, [rendezvous](const std::shared_ptr<Rendezvous>& one) { return one.get() == rendezvous; });
}

Result<RendezvousSite::Joined> RendezvousSite::Join(const Participant& participant) {
  if (participant.index < 0 || static_cast<size_t>(participant.index) >= num_devices_) {
    return InvalidArgument(Cat("callout: callback '", name_, "': the program's device ", participant.index,
                               " came to a call of ", num_devices_));
  }
  if (std::optional<Status> failed = RendezvousMonitor::Get().FindFailure(participant.run_id))
    return std::move(*failed);
  Rendezvous::ParticipantBuffers buffers = {true, participant.device_ordinal, Pointers(participant.args),
                                            Pointers(participant.results)};
  MutexLock lock(mutex_);
  std::shared_ptr<Rendezvous> rendezvous = OpenRendezvous(participant);
  rendezvous->participants_[static_cast<size_t>(participant.index)] = std::move(buffers);
  const bool is_last = ++rendezvous->count_ == num_devices_;
  if (is_last) Close(rendezvous.get());
  return Joined{std::move(rendezvous), is_last};
}

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kMostFailures = 1024;
constexpr int kIdleLooks = 8;  // then the watch ends until the next Enter

bool IsBusy(const std::vector<InFlight>& readings, int64_t launch_id) {
  const int64_t run_id = FindRun(launch_id).id;  // as callbacks see it
  return std::any_of(readings.begin(), readings.end(),
                     [run_id](const InFlight& reading) { return reading.run_id == run_id; });
}

// Returns the failure that other devices of the run get.
Status Heard(const Status& failure) {
  return failure.WithMessage("callout: another device of this run failed: " + std::string(failure.message()));
}

std::string Seconds(milliseconds time) {
  return Cat(std::chrono::duration_cast<std::chrono::seconds>(time).count(), " s");
}

}  // namespace

struct RendezvousMonitor::State {
  struct Failure {
    int64_t run_id = 0;
    Status status;
    steady_clock::time_point when;
  };
  struct Waiter {
    std::shared_ptr<Rendezvous> rendezvous;
    steady_clock::time_point since;  // or when a device of the run was last seen in a callback
    bool reported = false;
  };

  ForkMutex mutex;
  std::condition_variable_any changed;
  std::vector<Waiter> waiters CALLOUT_GUARDED_BY(mutex);
  std::deque<Failure> failures CALLOUT_GUARDED_BY(mutex);  // the oldest first
  std::atomic<bool> has_failures{false};  // relaxed: a device that misses it waits, and gets the failure in Enter
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

RendezvousMonitor::RendezvousMonitor() : state_(new State) {}

RendezvousMonitor& RendezvousMonitor::Get() {
  static RendezvousMonitor* const room = new RendezvousMonitor;  // leaked: its thread may outlive static destruction
  return *room;
}

std::optional<Status> RendezvousMonitor::Enter(std::shared_ptr<Rendezvous> rendezvous) {
  bool watch = false;
  {
    MutexLock lock(state_->mutex);
    if (std::optional<Status> failed = state_->Find(rendezvous->run_id())) return failed;
    if (rendezvous->is_over()) return std::nullopt;  // Leave was called, or will find nothing
    const auto known = [&](const State::Waiter& waiter) { return waiter.rendezvous == rendezvous; };
    if (std::any_of(state_->waiters.begin(), state_->waiters.end(), known)) return std::nullopt;
    const auto since = rendezvous->since();
    state_->waiters.push_back({std::move(rendezvous), since});
    watch = !std::exchange(state_->watched, true);
  }
  if (!watch) return std::nullopt;
  try {
    RunOnHelperThread([this] { Watch(); });
  } catch (...) {  // no more threads, or no memory: the next Enter tries again
    MutexLock lock(state_->mutex);
    state_->watched = false;
  }
  return std::nullopt;
}

void RendezvousMonitor::Leave(const Rendezvous* rendezvous) {
  MutexLock lock(state_->mutex);
  std::erase_if(state_->waiters,
                [rendezvous](const State::Waiter& waiter) { return waiter.rendezvous.get() == rendezvous; });
}

std::vector<std::shared_ptr<Rendezvous>> RendezvousMonitor::Remember(int64_t run_id, const Status& heard) {
  std::vector<std::shared_ptr<Rendezvous>> waiting;
  if (run_id == 0) return waiting;
  MutexLock lock(state_->mutex);
  if (state_->Find(run_id)) return waiting;  // the first failure counts
  if (state_->failures.size() == kMostFailures) state_->failures.pop_front();
  state_->failures.push_back({run_id, heard, steady_clock::now()});
  state_->has_failures.store(true, std::memory_order_relaxed);
  for (const State::Waiter& waiter : state_->waiters) {
    if (waiter.rendezvous->run_id() == run_id) waiting.push_back(waiter.rendezvous);
  }
  return waiting;
}

void RendezvousMonitor::NoteFailure(int64_t run_id, const Status& failure) {
  const Status heard = Heard(failure);
  for (const std::shared_ptr<Rendezvous>& rendezvous : Remember(run_id, heard)) (void)rendezvous->GiveUp(heard);
}

std::optional<Status> RendezvousMonitor::FindFailure(int64_t run_id) {
  if (!state_->has_failures.load(std::memory_order_relaxed)) [[likely]]
    return std::nullopt;
  MutexLock lock(state_->mutex);
  return state_->Find(run_id);
}

void RendezvousMonitor::SetLimit(milliseconds limit, milliseconds memory) {
  MutexLock lock(state_->mutex);
  state_->limit = limit;
  state_->memory = memory;
  state_->changed.notify_all();
}

void RendezvousMonitor::Watch() {
  while (WatchOnce()) {
  }
}

bool RendezvousMonitor::WatchOnce() {
  std::vector<std::shared_ptr<Rendezvous>> slow, late;
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
      if (IsBusy(readings, waiter.rendezvous->run_id())) waiter.since = now;
      const auto age = now - waiter.since;
      if (age > limit) late.push_back(waiter.rendezvous);
      if (age > limit / 2 && !std::exchange(waiter.reported, true)) slow.push_back(waiter.rendezvous);
    }
  }
  for (const std::shared_ptr<Rendezvous>& rendezvous : slow) {
    const std::string waiting = rendezvous->Describe();
    if (waiting.empty()) continue;  // the watchdog reports calls that take long
    Log(LogLevel::kWarning,
        Cat("callout: ", waiting, ", for ", Seconds(limit / 2), " now, run ", rendezvous->run_id()));
  }
  for (const std::shared_ptr<Rendezvous>& rendezvous : late) {
    const std::string waiting = rendezvous->Describe();
    if (waiting.empty()) continue;
    const Status status(StatusCode::kDeadlineExceeded,
                        "callout: " + waiting + ", which did not come within " + Seconds(limit));
    if (!rendezvous->Close()) continue;
    // The failure is remembered before the participants get it: a participant may then cause the missing device to
    // arrive.
    const auto others = Remember(rendezvous->run_id(), Heard(status));
    rendezvous->End(status);
    for (const std::shared_ptr<Rendezvous>& other : others) (void)other->GiveUp(Heard(status));
  }
  return true;
}

}  // namespace callout::internal
