// SPDX-License-Identifier: Apache-2.0
//
// What each thread is doing on behalf of a callback, for the watchdog. A few plain stores a call; nobody waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "callout/export.h"

namespace callout::internal {

enum class Activity : int32_t {
  kIdle = 0,
  kCall = 1,            ///< Inside a callback that the program waits for.
  kDelivery = 2,        ///< Inside a callback that gets a tap's record.
  kWaitingForRoom = 3,  ///< A tap waits for room in its queue.
  kWaitingForTaps = 4   ///< An ordered call waits for the delivery of earlier taps.
};

/// A reading of one thread. `serial` changes whenever the thread begins or ends something.
struct InFlight {
  Activity activity;
  uint64_t serial;
  uint64_t callback_id;
  int32_t device_ordinal;
  int64_t run_id;
  int64_t thread_id;  ///< The kernel's.
  bool holds_gpu;     ///< The GPU of its program waits for it.
};

/// What one thread is doing.
struct InFlightSlot;

/// Marks the current thread for as long as it lives. Nests.
class CALLOUT_EXPORT InFlightScope {
 public:
  /// `label`: the callback's, which outlives this; null if reports of crashes need none.
  InFlightScope(Activity activity, uint64_t callback_id, int32_t device_ordinal, int64_t run_id,
                const char* label = nullptr);
  ~InFlightScope();
  InFlightScope(const InFlightScope&) = delete;
  InFlightScope& operator=(const InFlightScope&) = delete;

 private:
  struct Saved {
    Activity activity;
    uint64_t callback_id;
    int32_t device_ordinal;
    int64_t run_id;
    const char* label;
  };
  InFlightSlot* slot_ = nullptr;
  Saved saved_;
};

/// True while the current thread is inside a callback that its program, or its eager caller, waits for. Thread-safe.
CALLOUT_EXPORT bool InsideCall();

/// Calls `told` when a thread first has a scope, in that thread; at once, too, if one had. Thread-safe.
void WhenThreadsCall(void (*told)());

/// The label of the innermost callback that runs on the current thread, and what it does there; null if none does. May
/// be called in a signal's handler. Borrowed: valid until the callback returns.
const char* RunningCallback(Activity& activity);

/// Readings of all threads that are not idle. Thread-safe.
std::vector<InFlight> ReadInFlight();

/// Says that the GPU of this thread's program waits for what the thread does, as long as this lives. Nests.
class CALLOUT_EXPORT GpuScope {
 public:
  GpuScope();
  ~GpuScope();
  GpuScope(const GpuScope&) = delete;
  GpuScope& operator=(const GpuScope&) = delete;

 private:
  const bool held_before_;
};

/// Tells that callbacks run in programs on this GPU. Reports of hangs say what is special there. Thread-safe.
CALLOUT_EXPORT void NoteGpu(int ordinal);
/// Whether that was told of more than one. Thread-safe.
bool HasSeveralGpus();

}  // namespace callout::internal
