// SPDX-License-Identifier: Apache-2.0
//
// Where the devices of a program meet for a call that is made once for all of them. Each lays down its buffers; the
// last one that comes makes the call, with what all have brought, and fills the results of all. Nobody waits here on a
// thread of XLA's: in a program with several calls at once, devices come to them in different orders, on threads that
// others need. XLA itself holds a thread for each program that it has begun, so many programs ahead still hang.
// WaitingRoom looks after meetings that devices wait for: it ends those to which a device never comes.
#pragma once

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

class MeetingPlace;

/// A device that comes to a call.
struct Guest {
  int32_t index = 0;  ///< Among the devices of the program.
  int32_t device_ordinal = -1;
  int64_t run_id = 0;
  std::span<const callout_buffer> args;     ///< Their memory stays as it is until the guest is told of the end.
  std::span<const callout_buffer> results;  ///< So does theirs. The one who makes the call writes them.
};

/// One call. Thread-safe but for what is said otherwise.
class CALLOUT_EXPORT Meeting final : public std::enable_shared_from_this<Meeting> {
 public:
  /// What one guest has brought.
  struct Seat {
    bool taken = false;
    int32_t device_ordinal = -1;
    std::vector<void*> args;
    std::vector<void*> results;
  };

  Meeting(std::shared_ptr<MeetingPlace> place, int64_t run_id);

  int64_t run_id() const { return run_id_; }
  /// Since when there is somebody.
  std::chrono::steady_clock::time_point since() const { return since_; }

  /// What all have brought, by index. Only for the guest that came last, until it ends the meeting.
  std::span<const Seat> seats() const CALLOUT_NO_THREAD_SAFETY_ANALYSIS { return seats_; }

  /// Tells everybody how the call went. Does nothing if it has ended. The guest that came last ends it; who gives it up
  /// before that may, too: false if it is too late, because all have come.
  void End(Status outcome);
  bool GiveUp(const Status& reason);
  /// The first half of giving up: nobody comes to it any more, and who calls this ends it. False if it is too late.
  bool Close();

  bool is_over() const { return over_.load(std::memory_order_acquire); }  // pairs with the release in End
  /// How the call went. Only once it is over.
  const Status& outcome() const CALLOUT_NO_THREAD_SAFETY_ANALYSIS { return outcome_; }

  /// Waits for the end on the processor, which it yields to others now and then: some microseconds, or as long as it
  /// takes to wake a thread. Whether it came.
  bool WaitBriefly() const;
  /// The outcome. Blocks until the meeting is over, on the processor: for those who have no other way to hear of it.
  const Status& AwaitOutcome() const;
  /// Has `told` called with the outcome, on a thread that has nothing else to do, and with the floating-point modes of
  /// this one. False if the meeting is over: then nobody is called.
  bool CallLater(std::function<void(const Status&)> told);

  /// "callback 'f': device 0 waits for device 1", by index. Empty once all have come.
  std::string Describe() const;

 private:
  friend class MeetingPlace;
  struct Waiting {
    std::function<void(const Status&)> told;
    std::fenv_t modes;
  };

  void Tell(std::vector<Waiting> waiting);

  const std::shared_ptr<MeetingPlace> place_;  // whose lock protects all that is not constant
  const int64_t run_id_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::vector<Seat> seats_;
  size_t count_ = 0;  // taken seats
  std::vector<Waiting> waiting_;
  Status outcome_;
  std::atomic<bool> over_{false};
};

/// The meetings of one call site of an executable. Thread-safe.
class CALLOUT_EXPORT MeetingPlace final : public std::enable_shared_from_this<MeetingPlace> {
 public:
  /// `name`: what errors call it.
  MeetingPlace(std::string name, size_t num_devices) : name_(std::move(name)), num_devices_(num_devices) {}

  struct Joined {
    std::shared_ptr<Meeting> meeting;
    bool is_last = false;  ///< All have come: the guest makes the call, and ends the meeting.
  };
  /// The guest takes its seat in the first meeting of its run in which that is free. InvalidArgument for an index that
  /// no device has.
  Result<Joined> Join(const Guest& guest);

  const std::string& name() const { return name_; }
  size_t num_devices() const { return num_devices_; }

 private:
  friend class Meeting;

  std::shared_ptr<Meeting> OpenMeeting(const Guest& guest) CALLOUT_REQUIRES(mutex_);
  void Close(const Meeting* meeting) CALLOUT_REQUIRES(mutex_);
  /// Whether a guest should wait as long as it takes to wake another.
  bool IsPatient();

  const std::string name_;
  const size_t num_devices_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Meeting>> open_ CALLOUT_GUARDED_BY(mutex_);  // in the order in which they began
  // Guesses, of which an update may be lost.
  std::atomic<int> brief_meetings_{0};            // left before one is patient again
  std::atomic<bool> may_share_processor_{false};  // guests that wait for each other are on one
};

/// Thread-safe.
class CALLOUT_EXPORT WaitingRoom {
 public:
  /// How long it is remembered that a run failed.
  static constexpr std::chrono::milliseconds kFailureMemory = std::chrono::minutes(10);

  /// Never destroyed.
  static WaitingRoom& Get();

  /// Looks after `meeting` until it is over: when nobody has come for half of the limit, one warning says who waits for
  /// whom, and after the limit all get DeadlineExceeded. The time begins again while a device of the run is in a
  /// callback. Returns what the run has failed with: then nobody looks after it. If no thread can be had for it, nobody
  /// looks until somebody else comes.
  std::optional<Status> Enter(std::shared_ptr<Meeting> meeting);
  void Leave(const Meeting* meeting);

  /// A device of this run failed and comes to no meeting: whoever waits in one, or comes later, fails, too. A run
  /// without a number (0) is not known.
  void NoteFailure(int64_t run_id, const Status& failure);
  /// Returns the failure of the run, with which every device fails that comes to a meeting of the run later.
  std::optional<Status> FindFailure(int64_t run_id);

  /// 40 s by default, as long as XLA waits. For tests.
  void SetLimit(std::chrono::milliseconds limit, std::chrono::milliseconds memory = kFailureMemory);

 private:
  struct State;

  WaitingRoom();
  /// Has whoever comes later fail, and returns the meetings that wait.
  std::vector<std::shared_ptr<Meeting>> Remember(int64_t run_id, const Status& heard);
  void Watch();
  bool WatchOnce();

  State* const state_;
};

}  // namespace callout::internal
