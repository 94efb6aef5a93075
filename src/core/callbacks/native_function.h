// SPDX-License-Identifier: Apache-2.0
//
// Native callbacks: function pointers of the two kinds in callout/abi.h, closures, and what a native function may ask
// of its call.
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

/// The code and the message that a native function gave to `set_error`.
struct NativeError {
  StatusCode code = StatusCode::kInternal;
  std::string message;

  static void Set(void* error, int32_t code, const char* message, size_t length) noexcept;

  /// How the call went, by what the function returned: 0 or a code with what was told, or a status, behind which that
  /// is.
  Status Outcome(int32_t returned);
  Status Outcome(Status returned) const;
};

/// Memory that a function asked for, until it returns.
class CallMemory {
 public:
  CallMemory() = default;
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  ~CallMemory();

  static void* Allocate(void* scratch, uint64_t bytes, uint64_t alignment) noexcept;

 private:
  std::vector<void*> blocks_;
};

/// Calls `function(const callout_call*)`, which returns 0 or a code, or a Status; whatever it throws becomes one.
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
  return Guarded([&] { return error.Outcome(std::forward<Function>(function)(&whole)); });
}

struct NativeOptions {
  /// Dropped with the callback, on any thread.
  std::shared_ptr<void> owner;
  /// Calls of all such functions of the process wait for each other.
  bool one_at_a_time = false;
};

/// Calls a callout_function in place; whatever it throws becomes a Status. As a tap it gets its records on the native
/// worker.
class NativeFunction final : public Callback {
 public:
  /// `function` is copied; the code that it points to must stay loaded as long as `options.owner`, or for ever.
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

/// InvalidArgument if the record is of another ABI version or of an unknown kind. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeNativeFunction(std::string label, const callout_function& function,
                                                                    NativeOptions options = {});

/// The function `symbol` of a loaded library: the record that CALLOUT_DEFINE_CALLBACK(symbol, ...) exports, or else the
/// function `symbol` itself, taken for a callout_pointers_fn. Thread-safe.
Result<std::shared_ptr<Callback>> FindNativeFunction(std::string label, const DynamicLibrary& library,
                                                     const std::string& symbol);

/// "path/lib.so:symbol", as above. Thread-safe. The library stays loaded.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> LoadNativeFunction(std::string label, const std::string& spec);

/// Takes ownership of the closure's context if it succeeds: it is destroyed with the last reference to the callback.
/// InvalidArgument, and nothing is taken, if it is no closure. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeClosure(std::string label, const callout_closure& closure);

}  // namespace callout::internal
