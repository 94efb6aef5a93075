// SPDX-License-Identifier: Apache-2.0
//
// The rendezvous of a program's devices at a call that is made once for all of them. Each device brings its buffers;
// the last one that arrives makes the call with the buffers of all, and fills the results of all. No XLA thread blocks
// here: with several calls at once, devices arrive at them in different orders, on threads that other devices need. XLA
// itself holds a thread for each program that has begun, so a host that starts many programs ahead can still hang.
//
// RendezvousMonitor watches the rendezvous in which devices wait, and ends those to which a device never comes.
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

class RendezvousSite;

/// A device that arrives at a call.
struct Participant {
  int32_t index = 0;  ///< Index among the devices of the program.
  int32_t device_ordinal = -1;
  int64_t run_id = 0;
  std::span<const callout_buffer> args;     ///< Their memory stays unchanged until the participant gets the outcome.
  std::span<const callout_buffer> results;  ///< Their memory stays until then, too. The last participant writes it.
};

/// One call. Thread-safe except where a comment restricts the caller.
class CALLOUT_EXPORT Rendezvous final : public std::enable_shared_from_this<Rendezvous> {
 public:
  /// The buffers of one participant.
  struct ParticipantBuffers {
    bool taken = false;
    int32_t device_ordinal = -1;
    std::vector<void*> args;
    std::vector<void*> results;
  };

  Rendezvous(std::shared_ptr<RendezvousSite> place, int64_t run_id);

  int64_t run_id() const { return run_id_; }
  /// Returns the time at which the first participant arrived.
  std::chrono::steady_clock::time_point since() const { return since_; }

  /// Returns the buffers of all participants, by index. Only for the last participant, until it calls End.
  std::span<const ParticipantBuffers> participants() const CALLOUT_NO_THREAD_SAFETY_ANALYSIS { return participants_; }

  /// Ends the rendezvous: passes the call's outcome to all participants. Has no effect after the first End. The
  /// last participant calls End. Before its arrival, any thread may end the rendezvous by GiveUp, which returns false
  /// once all have arrived.
  void End(Status outcome);
  bool GiveUp(const Status& reason);
  /// Closes the rendezvous to further participants, as the first step of giving up; the caller must then call End.
  /// Returns false once all have arrived.
  bool Close();

  bool is_over() const { return over_.load(std::memory_order_acquire); }  // pairs with the release in End
  /// Returns the outcome of the call. Only after is_over.
  const Status& outcome() const CALLOUT_NO_THREAD_SAFETY_ANALYSIS { return outcome_; }

  /// Spins until the end, yielding the processor now and then, for some microseconds or as long as waking a thread
  /// takes. Returns whether the rendezvous is over.
  bool WaitBriefly() const;
  /// Returns the outcome. Blocks until the rendezvous is over, spinning: for callers that cannot get the outcome
  /// otherwise.
  const Status& AwaitOutcome() const;
  /// Calls `listener` with the outcome, on a helper thread and with this thread's floating-point environment. Returns
  /// false, without a call, if the rendezvous is over.
  bool CallLater(std::function<void(const Status&)> listener);

  /// Returns "callback 'f': device 0 waits for device 1", by index. Empty once all have arrived.
  std::string Describe() const;

 private:
  friend class RendezvousSite;
  struct Waiting {
    std::function<void(const Status&)> listener;
    std::fenv_t modes;
  };

  void Tell(std::vector<Waiting> waiting);

  const std::shared_ptr<RendezvousSite> place_;  // its lock guards all members that change
  const int64_t run_id_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::vector<ParticipantBuffers> participants_;
  size_t count_ = 0;  // participants that have arrived
  std::vector<Waiting> waiting_;
  Status outcome_;
  std::atomic<bool> over_{false};
};

/// The rendezvous of one call site of an executable. Thread-safe.
class CALLOUT_EXPORT RendezvousSite final : public std::enable_shared_from_this<RendezvousSite> {
 public:
  /// Makes a site. `name` is the callback's name in errors.
  RendezvousSite(std::string name, size_t num_devices) : name_(std::move(name)), num_devices_(num_devices) {}

  struct Joined {
    std::shared_ptr<Rendezvous> rendezvous;
    bool is_last = false;  ///< All have arrived: the participant makes the call, and then calls End.
  };
  /// Adds the participant to the first open rendezvous of its run that still lacks this index. InvalidArgument for an
  /// index that no device has.
  Result<Joined> Join(const Participant& participant);

  const std::string& name() const { return name_; }
  size_t num_devices() const { return num_devices_; }

 private:
  friend class Rendezvous;

  std::shared_ptr<Rendezvous> OpenRendezvous(const Participant& participant) CALLOUT_REQUIRES(mutex_);
  void Close(const Rendezvous* rendezvous) CALLOUT_REQUIRES(mutex_);
  /// Returns whether a participant should spin as long as waking another takes.
  bool ShouldWaitLong();

  const std::string name_;
  const size_t num_devices_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Rendezvous>> open_ CALLOUT_GUARDED_BY(mutex_);  // in the order of their begin
  // Estimates; an update may be lost.
  std::atomic<int> brief_rendezvous_{0};          // remaining rendezvous with a short wait
  std::atomic<bool> may_share_processor_{false};  // waiting participants share a processor
};

/// Watches the rendezvous of the process, and remembers failed runs. Thread-safe.
class CALLOUT_EXPORT RendezvousMonitor {
 public:
  /// How long the failure of a run is remembered.
  static constexpr std::chrono::milliseconds kFailureMemory = std::chrono::minutes(10);

  /// Returns the process's monitor, which is never destroyed.
  static RendezvousMonitor& Get();

  /// Watches `rendezvous` until it is over. If no device has arrived for half of the limit, one warning names the
  /// waiting and the missing devices; after the limit all participants get DeadlineExceeded. The time restarts while a
  /// device of the run is in a callback. Returns the failure of the run, if the run has failed, and then does not
  /// watch. If no thread can be created, nobody watches until the next Enter.
  std::optional<Status> Enter(std::shared_ptr<Rendezvous> rendezvous);
  void Leave(const Rendezvous* rendezvous);

  /// Notes that a device of this run failed and comes to no rendezvous: participants that wait, or arrive later, fail,
  /// too. A run without a number (0) is ignored.
  void NoteFailure(int64_t run_id, const Status& failure);
  /// Returns the failure of the run. Every device that arrives at a rendezvous of the run later fails with it.
  std::optional<Status> FindFailure(int64_t run_id);

  /// Sets the limit, 40 s by default, which is how long XLA waits. For tests.
  void SetLimit(std::chrono::milliseconds limit, std::chrono::milliseconds memory = kFailureMemory);

 private:
  struct State;

  RendezvousMonitor();
  /// Remembers that the run failed with `heard`, and returns the run's rendezvous that still wait for participants.
  std::vector<std::shared_ptr<Rendezvous>> Remember(int64_t run_id, const Status& heard);
  void Watch();
  bool WatchOnce();

  State* const state_;
};

}  // namespace callout::internal
