// SPDX-License-Identifier: Apache-2.0
//
// Protocols between two threads of files that cannot be compiled for a model, because they use thread-local variables,
// CUDA or Python. Each step names the operation of the source that it stands for; whoever changes one changes the
// other.
#pragma once

#include <cstdint>

#include "delivery.h"
#include "runner.h"

namespace callout::model {

// src/core/profile/recorder.cc: Stop owns the events when no thread is inside RecordEvent.
struct RecordingIsTakenWithoutWriters : rl::test_suite<RecordingIsTakenWithoutWriters, 2> {
  std::atomic<uint32_t> session;  // g_profile_session
  std::atomic<bool> busy;         // ThreadLog::busy
  rl::var<int> log;

  void before() {
    session.store(1);
    log($) = 0;
  }
  void thread(unsigned index) {
    if (index == 0) {  // RecordEvent
      busy.store(true, std::memory_order_seq_cst);
      if (session.load(std::memory_order_seq_cst) == 1) log($) = 1;
      busy.store(false, std::memory_order_release);
    } else {  // StopRecording
      session.exchange(0, std::memory_order_seq_cst);
      while (busy.load(std::memory_order_seq_cst)) rl::yield(1, Here(__FILE__, __LINE__));
      log($) = 2;
    }
  }
};

// src/cuda/taps: a record of a device starts the drainer's thread, or Park sees the record.
struct ParkedDrainerIsStarted : rl::test_suite<ParkedDrainerIsStarted, 2> {
  std::atomic<uint64_t> outstanding;  // TapDrainer::outstanding
  std::atomic<bool> running;          // DeviceTaps::running_
  int starts = 0;

  void before() { running.store(true); }
  void thread(unsigned index) {
    if (index == 0) {                                          // TapDevice::Take
      outstanding.fetch_add(1, std::memory_order_seq_cst);     // Append
      if (!running.load(std::memory_order_seq_cst)) ++starts;  // DeviceTaps::Wake
    } else {                                                   // DeviceTaps::Park
      running.store(false, std::memory_order_seq_cst);         // Run, which Stop waits for
      if (outstanding.load(std::memory_order_seq_cst) > 0) ++starts;
    }
  }
  void after() { RL_ASSERT(starts > 0); }
};

// src/cuda/taps/tap_device.cc: the thread that hands a slot on sees its description and the bytes that the device
// wrote.
struct SlotIsReadAfterItsArrival : rl::test_suite<SlotIsReadAfterItsArrival, 3> {
  std::atomic<int> state;         // TapDevice::Entry::state
  std::atomic<uint32_t> arrived;  // TapSlot::arrived
  rl::var<int> description;
  rl::var<int> data;

  void before() {
    description($) = 0;
    data($) = 0;
  }
  void thread(unsigned index) {
    if (index == 0) {  // TapDevice::Take
      description($) = 1;
      state.store(1, std::memory_order_release);
    } else if (index == 1) {  // the device, or SetArrived
      data($) = 1;
      arrived.store(1, std::memory_order_release);
    } else if (state.load(std::memory_order_acquire) == 1) {  // TapDevice::HandOn
      RL_ASSERT(description($).load() == 1);
      if (arrived.load(std::memory_order_acquire) == 1) RL_ASSERT(data($).load() == 1);  // TapSlot::HasArrived
    }
  }
};

// python/src/gil.cc: CloseInterpreter counts each thread that enters or drops a reference, or that thread finds the
// interpreter closed.
struct NoThreadEntersAClosedInterpreter : rl::test_suite<NoThreadEntersAClosedInterpreter, 2> {
  std::atomic<int> inside;   // g_inside
  std::atomic<bool> closed;  // g_closed
  rl::var<int> interpreter;

  void before() { interpreter($) = 0; }
  void thread(unsigned index) {
    if (index == 0) {  // Enter, Leave
      inside.fetch_add(1, std::memory_order_seq_cst);
      if (!closed.load(std::memory_order_seq_cst)) interpreter($) = 1;
      inside.fetch_sub(1, std::memory_order_release);
    } else {  // CloseInterpreter
      closed.store(true, std::memory_order_seq_cst);
      while (inside.load(std::memory_order_seq_cst) > 0) rl::yield(1, Here(__FILE__, __LINE__));
      interpreter($) = 2;
    }
  }
};

// src/core/callbacks/in_flight.cc: a thread that adds or takes a slot notifies the watchdog, or the watchdog finds it.
struct CallingThreadsAreReported : rl::test_suite<CallingThreadsAreReported, 3> {
  std::atomic<int> slots;     // g_slots
  std::atomic<int> listener;  // g_on_new_thread
  int found = 0;              // by TakeSlot
  int tellings = 0;

  void thread(unsigned index) {
    if (index == 0) {  // WhenThreadsCall
      listener.store(1, std::memory_order_seq_cst);
      if (slots.load(std::memory_order_seq_cst) != 0) ++tellings;
      return;
    }
    if (index == 1) slots.fetch_add(1, std::memory_order_seq_cst);         // TakeSlot, if it adds a slot
    if (index == 2 && slots.load(std::memory_order_seq_cst) == 0) return;  // TakeSlot, if it finds none
    ++found;
    if (listener.load(std::memory_order_seq_cst) == 1) ++tellings;  // SlotOwner
  }
  void after() { RL_ASSERT(found == 0 || tellings > 0); }
};

// python/src/jit_errors.cc: a thread that finds our function in a slot knows the function that it replaces.
struct WrappedCallIsKnown : rl::test_suite<WrappedCallIsKnown, 2> {
  std::atomic<int> slot;   // the jitted function's slot
  std::atomic<int> known;  // g_jaxlib_call

  void thread(unsigned index) {
    if (index == 0) {  // TranslateErrorsOf
      int none = 0;
      (void)known.compare_exchange_strong(none, 1, std::memory_order_seq_cst);
      slot.store(1, std::memory_order_seq_cst);
    } else if (slot.load(std::memory_order_acquire) == 1) {  // CallAndTranslate
      RL_ASSERT(known.load(std::memory_order_relaxed) == 1);
    }
  }
};

// src/cuda/taps/device_taps.cc: a thread that waits in Flush sees Close, or Close notifies it.
struct ClosingEndsFlush : rl::test_suite<ClosingEndsFlush, 2> {
  std::atomic<bool> closed;  // DeviceTaps::closed_
  std::atomic<int> waiters;  // DeviceTaps::waiters_
  std::mutex mutex;
  std::condition_variable_any progress;

  void thread(unsigned index) {
    if (index == 0) {  // Flush
      mutex.lock();
      waiters.fetch_add(1, std::memory_order_seq_cst);
      while (!closed.load(std::memory_order_acquire)) progress.wait(mutex);
      mutex.unlock();
      return;
    }
    closed.store(true, std::memory_order_release);  // Close
    mutex.lock();                                   // Devices
    mutex.unlock();
    if (waiters.load(std::memory_order_seq_cst) == 0) return;  // NotifyProgress
    mutex.lock();
    progress.notify_all();
    mutex.unlock();
  }
};

// src/core/ffi/lanes.cc, LaneCall::Help and Wait: the waiting thread sees the results of all lanes.
struct AllLanesAreAwaited : rl::test_suite<AllLanesAreAwaited, 2> {
  std::atomic<int64_t> next;
  std::atomic<int64_t> done;
  rl::var<int> results[2];

  void before() {
    for (auto& result : results) result($) = 0;
  }
  void thread(unsigned index) {
    for (;;) {
      const int64_t lane = next.fetch_add(1, std::memory_order_relaxed);
      if (lane >= 2) break;
      results[lane]($) = 1;
      done.fetch_add(1, std::memory_order_acq_rel);
    }
    if (index != 0) return;
    while (done.load(std::memory_order_acquire) < 2) rl::yield(1, Here(__FILE__, __LINE__));
    for (auto& result : results) RL_ASSERT(result($).load() == 1);
  }
};

// Compiles the unchanged src/core/delivery/tap_site.h: of two threads, one takes the interval, and both use the same
// state of the device.
struct OneRecordPerIntervalIsAdmitted : rl::test_suite<OneRecordPerIntervalIsAdmitted, 2> {
  std::optional<internal::Throttle> throttle;
  int admitted = 0;

  void before() {
    Live::ForgetAll();
    internal::TapAttributes attributes;
    attributes.min_interval_ns = int64_t{1} << 40;
    throttle.emplace(attributes);
  }
  void thread(unsigned /*index*/) { admitted += throttle->Admit(0) ? 1 : 0; }
  void after() {
    RL_ASSERT(admitted == 1);
    RL_ASSERT(throttle->TakeSkipped(0) == 1);
    throttle.reset();
  }
};

inline void AddProtocolModels(std::vector<Model>& models) {
  const auto add = [&]<typename Suite>(const char* name, Weakened notices) {
    models.push_back(Searched<Suite>(name, 3, notices));
  };
  constexpr Weakened kSequential = Weakened::kSequentialConsistency;
  add.operator()<RecordingIsTakenWithoutWriters>("RecordingIsTakenWithoutWriters", kSequential);
  add.operator()<ParkedDrainerIsStarted>("ParkedDrainerIsStarted", kSequential);
  add.operator()<SlotIsReadAfterItsArrival>("SlotIsReadAfterItsArrival", Weakened::kAll);
  add.operator()<NoThreadEntersAClosedInterpreter>("NoThreadEntersAClosedInterpreter", kSequential);
  add.operator()<CallingThreadsAreReported>("CallingThreadsAreReported", kSequential);
  add.operator()<WrappedCallIsKnown>("WrappedCallIsKnown", Weakened::kAll);
  add.operator()<ClosingEndsFlush>("ClosingEndsFlush", Weakened::kNothing);
  add.operator()<AllLanesAreAwaited>("AllLanesAreAwaited", Weakened::kAll);
  add.operator()<OneRecordPerIntervalIsAdmitted>("OneRecordPerIntervalIsAdmitted", Weakened::kNothing);
}

}  // namespace callout::model
