// SPDX-License-Identifier: Apache-2.0
//
// A slot for each thread shows the watchdog what the thread is doing for a callback. A call costs a few plain stores,
// and no thread waits.
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

/// A reading of one thread. `serial` changes whenever the thread begins or ends an activity.
struct InFlight {
  Activity activity;
  uint64_t serial;
  uint64_t callback_id;
  int32_t device_ordinal;
  int64_t run_id;
  int64_t thread_id;  ///< The kernel's number of the thread.
  bool holds_gpu;     ///< The GPU of the thread's program waits for the thread.
};

/// The activity of one thread.
struct InFlightSlot;

/// Marks the current thread as busy during the object's life. Nests.
class CALLOUT_EXPORT InFlightScope {
 public:
  /// Marks the thread. Borrowed: `label` is the callback's and outlives this object; null if crash reports need none.
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

/// Returns true while the current thread is inside a callback that its program, or its eager caller, waits for.
/// Thread-safe.
CALLOUT_EXPORT bool InsideCall();

/// Calls `listener` in each thread that gets its first scope, and at once if a thread had one before. Thread-safe.
void WhenThreadsCall(void (*listener)());

/// Returns the label of the innermost callback that runs on the current thread, and its activity; null if no callback
/// runs. May be called in a signal handler. Borrowed: valid until the callback returns.
const char* RunningCallback(Activity& activity);

/// Returns readings of all threads that are not idle. Thread-safe.
std::vector<InFlight> ReadInFlight();

/// Marks, during its life, that the GPU of this thread's program waits for the thread. Nests.
class CALLOUT_EXPORT GpuScope {
 public:
  GpuScope();
  ~GpuScope();
  GpuScope(const GpuScope&) = delete;
  GpuScope& operator=(const GpuScope&) = delete;

 private:
  const bool held_before_;
};

/// Notes that callbacks run in programs on this GPU, for reports of hangs. Thread-safe.
CALLOUT_EXPORT void NoteGpu(int ordinal);
/// Returns whether NoteGpu was called for more than one GPU. Thread-safe.
bool HasSeveralGpus();

}  // namespace callout::internal
