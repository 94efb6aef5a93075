// SPDX-License-Identifier: Apache-2.0
//
// One owner for every kind of thing that the driver makes and destroys: Handle<its destroying function>.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/base/live_count.h"
#include "cuda/driver/device.h"
#include "cuda/driver/reaper.h"

namespace callout::internal::cuda {

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
