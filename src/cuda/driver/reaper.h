// SPDX-License-Identifier: Apache-2.0
//
// The end of what the driver made. To free memory, to unload code and to destroy graphs may wait for every device, and
// who lets go of them may be what a device waits for: a thread that launches, or one that holds the GIL. So a thread of
// its own destroys them, in the order in which they were let go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>

#include "callout/export.h"
#include "core/base/thread_annotations.h"
#include "cuda/driver/driver.h"

namespace callout::internal::cuda {

/// One thing that nobody uses any more.
struct Remains {
  const Driver* driver = nullptr;
  CUcontext context = nullptr;  ///< In which it was made; may be null.
  int ordinal = -1;
  uint64_t value = 0;
  /// Its end. The driver's answer is dropped: after an error of the context every call repeats that error, and the
  /// context's end frees what it held.
  void (*destroy)(const Driver& driver, uint64_t value) = nullptr;
};

/// Thread-safe. GIL not needed. Its thread runs while there is something to destroy, and ends by itself.
class CALLOUT_EXPORT Reaper {
 public:
  /// The process's, never destroyed. At exit it awaits, for a second at most, what its thread is about to destroy; what
  /// is left is the driver's.
  static Reaper& Get();

  /// Does not block. Not in a forked child, nor once the process is exiting.
  void Take(const Remains& remains) noexcept;

  /// Blocks until everything that was taken before has been destroyed, or until `deadline`: then false.
  bool Flush(std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

  /// Threads that run.
  int RunningThreads() const;

 private:
  static void AtExit();
  void Start() CALLOUT_REQUIRES(mutex_);
  void Run();

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Remains> waiting_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t taken_ CALLOUT_GUARDED_BY(mutex_) = 0;
  uint64_t destroyed_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool running_ CALLOUT_GUARDED_BY(mutex_) = false;
  bool closed_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::thread thread_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal::cuda
