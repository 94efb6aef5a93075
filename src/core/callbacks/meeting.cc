// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/meeting.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/pause.h"
#include "core/base/spare_threads.h"
#include "core/base/ticks.h"
#include "core/callbacks/waiting_room.h"

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

}  // namespace callout::internal
