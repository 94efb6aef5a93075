// SPDX-License-Identifier: Apache-2.0
//
// Native callbacks: function pointers of the two kinds in callout/abi.h, closures, and the services that a native
// function may use through its call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/base/dynamic_library.h"
#include "core/base/status.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// The error that a native function passed to `set_error`.
struct NativeError {
  Status reported;

  static void Set(void* error, int32_t code, const char* message, size_t length) noexcept;

  /// Returns the outcome of the call. The function returned either 0 or an error code, to which the reported error
  /// belongs, or a Status, to whose message the reported text is appended.
  Status Outcome(int32_t returned);
  Status Outcome(Status returned) const;
};

/// Memory that a function allocated, which lives until the function returns.
class CallMemory {
 public:
  CallMemory() = default;
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  ~CallMemory();

  static void* Allocate(void* scratch, uint64_t bytes, uint64_t alignment) noexcept;

  /// Returns true if an allocation has failed.
  bool was_refused() const { return was_refused_; }

 private:
  std::vector<void*> blocks_;
  bool was_refused_ = false;
};

/// Calls `function(const callout_call*)`, which returns 0 or a code, or a Status; an exception becomes a Status.
/// Thread-safe.
template <typename Function>
Status CallNative(const callout_call& call, Function&& function) {
  NativeError error;
  CallMemory scratch;
  callout_call whole = call;
  whole.error_context = &error;
  whole.set_error = &NativeError::Set;
  whole.allocator = &scratch;
  whole.allocate = &CallMemory::Allocate;
  Status status = Guarded([&] { return error.Outcome(std::forward<Function>(function)(&whole)); });
  if (!status.ok() && scratch.was_refused()) [[unlikely]]
    return {status.code(), std::string(status.message()), StatusKind::kMemory};
  return status;
}

/// Reports why a callback is about to return nonzero, like `set_error`. A call from this core gets the whole failure,
/// with its kind and its exception. Thread-safe. GIL not needed.
CALLOUT_EXPORT void FailCall(const callout_call& call, const Status& failure) noexcept;

struct NativeOptions {
  /// Dropped with the callback, on any thread.
  std::shared_ptr<void> owner;
  /// Calls of all such functions of the process run one after the other.
  bool one_at_a_time = false;
};

/// Calls a callout_function in place; an exception becomes a Status. The native worker delivers its tap records.
class NativeFunction final : public Callback {
 public:
  /// Copies `function`; its code must stay loaded as long as `options.owner`, or for ever.
  NativeFunction(std::string label, const callout_function& function, NativeOptions options = {});

  Worker worker() const override { return Worker::kNative; }
  bool takes_device_memory() const override { return true; }
  Status Call(const callout_call& call) override;
  Status Deliver(const Record& record) override;
  std::span<const callout_parameter> parameters() const override {
    return {function_.parameters, function_.num_parameters};
  }

 private:
  const callout_function function_;
  const NativeOptions options_;
};

/// Makes the callback. InvalidArgument if the record is of another ABI version or of an unknown kind. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeNativeFunction(std::string label, const callout_function& function,
                                                                    NativeOptions options = {});

/// Returns the function `symbol` of a loaded library: the record that CALLOUT_DEFINE_CALLBACK(symbol, ...) exports, or
/// else the function `symbol` itself, as a callout_pointers_fn. Thread-safe.
Result<std::shared_ptr<Callback>> FindNativeFunction(std::string label, const DynamicLibrary& library,
                                                     const std::string& symbol);

/// Loads "path/lib.so:symbol", and finds the function like FindNativeFunction. The library stays loaded. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> LoadNativeFunction(std::string label, const std::string& spec);

/// Makes a callback of a closure. Takes ownership of the closure's context on success, and destroys it with the last
/// reference to the callback. InvalidArgument, and no ownership, if the closure is invalid. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeClosure(std::string label, const callout_closure& closure);

}  // namespace callout::internal
