// SPDX-License-Identifier: Apache-2.0
//
// Owners of what the driver makes (Handle), and the thread that destroys it (Reaper). Freeing memory, unloading code
// and destroying graphs may wait for every device, and a device may wait for whoever lets go of them: a thread that
// launches, or one that holds the GIL. So the reaper destroys them, in the order in which they were let go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>
#include <type_traits>
#include <utility>

#include "callout/export.h"
#include "core/base/live_count.h"
#include "core/base/thread_annotations.h"
#include "cuda/driver/device.h"
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

// One owner for every kind of thing that the driver makes and destroys: Handle<its destroying function>.

template <typename Function>
struct DestroyedType;
template <typename T>
struct DestroyedType<CUresult (*DriverFunctions::*)(T)> {
  using Type = T;
};

/// Owns one `Type`, or nothing. Movable; for one thread at a time. What is let go is destroyed in the context in which
/// it was made, by the reaper, for that may wait for devices; and not at all where the driver may not be called: then
/// the process's end frees it.
template <auto kDestroy>
class Handle {
 public:
  using Type = typename DestroyedType<decltype(kDestroy)>::Type;

  Handle() = default;
  /// Takes ownership. `device` outlives the handle.
  Handle(const Device& device, Type value)
      : driver_(&device.driver()), context_(device.context()), ordinal_(device.ordinal()), value_(value) {
    Count(1);
  }
  /// Takes ownership of a thing that belongs to no context.
  Handle(const Driver& driver, Type value) : driver_(&driver), value_(value) { Count(1); }
  Handle(Handle&& other) noexcept { *this = std::move(other); }
  Handle& operator=(Handle&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    driver_ = std::exchange(other.driver_, nullptr);
    context_ = other.context_;
    ordinal_ = other.ordinal_;
    value_ = std::exchange(other.value_, Type{});
    return *this;
  }
  ~Handle() { Reset(); }

  Type get() const { return value_; }
  explicit operator bool() const { return driver_ != nullptr; }

  /// Has the reaper call this for the thing, before it destroys it. Does not block.
  template <auto kFunction>
  void Finally() const {
    Reaper::Get().Take({driver_, context_, ordinal_, Number(value_), [](const Driver& driver, uint64_t value) {
                          static_cast<void>((driver.*kFunction)(Value(value)));
                        }});
  }

  /// Lets go of what is owned. Does not block.
  void Reset() noexcept {
    if (driver_ == nullptr) return;
    Finally<kDestroy>();
    Count(-1);
    driver_ = nullptr;
    value_ = Type{};
  }

 private:
  static uint64_t Number(Type value) {
    if constexpr (std::is_pointer_v<Type>) {
      return reinterpret_cast<uint64_t>(value);
    } else {
      return value;
    }
  }
  static Type Value(uint64_t number) {
    if constexpr (std::is_pointer_v<Type>) {
      return reinterpret_cast<Type>(number);
    } else {
      return number;
    }
  }
  static void Count(int by) { LiveCounter(LiveKind::kCudaHandle).fetch_add(by, std::memory_order_relaxed); }

  const Driver* driver_ = nullptr;
  CUcontext context_ = nullptr;
  int ordinal_ = -1;
  Type value_ = {};
};

using Stream = Handle<&DriverFunctions::StreamDestroy>;
using Event = Handle<&DriverFunctions::EventDestroy>;
using DeviceMemory = Handle<&DriverFunctions::MemFree>;
using PinnedMemory = Handle<&DriverFunctions::MemFreeHost>;
using Library = Handle<&DriverFunctions::LibraryUnload>;
using Graph = Handle<&DriverFunctions::GraphDestroy>;
using GraphExec = Handle<&DriverFunctions::GraphExecDestroy>;

}  // namespace callout::internal::cuda
