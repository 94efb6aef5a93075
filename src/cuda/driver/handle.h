// SPDX-License-Identifier: Apache-2.0
//
// Owners of the driver's objects (Handle), and the thread that destroys the objects (Reaper). Freeing memory, unloading
// code and destroying graphs may wait for every device, and a device may wait for the thread that releases the object:
// a thread that launches, or one that holds the GIL. So the reaper destroys all objects, in the order in which they
// were released.
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

/// One object that is no longer used.
struct Remains {
  const Driver* driver = nullptr;
  CUcontext context = nullptr;  ///< The context of the object; may be null.
  int ordinal = -1;
  uint64_t value = 0;
  /// Destroys the object, and ignores the driver's result: after an error of the context every call returns that error,
  /// and the context's end frees its objects.
  void (*destroy)(const Driver& driver, uint64_t value) = nullptr;
};

/// Destroys released objects on a thread of its own, which runs while there are any, and then ends. Thread-safe. GIL
/// not needed.
class CALLOUT_EXPORT Reaper {
 public:
  /// Returns the reaper of the process, which is never destroyed. At exit it waits, for at most a second, until its
  /// thread has destroyed its current object; the driver frees the others.
  static Reaper& Get();

  /// Releases an object. Does not block. Does nothing in a forked child, or once the process is exiting.
  void Take(const Remains& remains) noexcept;

  /// Blocks until everything that was released before has been destroyed. Returns false if that takes until `deadline`.
  bool Flush(std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

  /// The number of running threads.
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

// Deduces the type of an object from the driver function that destroys it, so that one template owns every kind:
// Handle<destroying function>.

template <typename Function>
struct DestroyedType;
template <typename T>
struct DestroyedType<CUresult (*DriverFunctions::*)(T)> {
  using Type = T;
};

/// Owns one `Type`, or nothing. Movable; one thread at a time. The reaper destroys a released object in the context in
/// which it was made, because destruction may wait for devices. If the driver may not be called, the end of the process
/// frees the object.
template <auto kDestroy>
class Handle {
 public:
  using Type = typename DestroyedType<decltype(kDestroy)>::Type;

  Handle() = default;
  /// Takes ownership. `device` must outlive the handle.
  Handle(const Device& device, Type value)
      : driver_(&device.driver()), context_(device.context()), ordinal_(device.ordinal()), value_(value) {
    Count(1);
  }
  /// Takes ownership of an object that belongs to no context.
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

  /// Makes the reaper call kFunction with the object before destroying it. Does not block.
  template <auto kFunction>
  void Finally() const {
    Reaper::Get().Take({driver_, context_, ordinal_, Number(value_), [](const Driver& driver, uint64_t value) {
                          static_cast<void>((driver.*kFunction)(Value(value)));
                        }});
  }

  /// Releases the object. Does not block.
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
