// SPDX-License-Identifier: Apache-2.0
//
// What a native function may ask of its call: to report an error, and memory until it returns.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/base/caught.h"

namespace callout::internal {

/// What `set_error` was told.
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
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  static void* Allocate(void* scratch, uint64_t bytes, uint64_t alignment) noexcept;

 private:
  std::vector<void*> blocks_;
};

/// Calls `function(const callout_call*)`, which returns 0 or a code, or a Status; whatever it throws becomes one.
/// Thread-safe.
template <typename Function>
Status CallNative(const callout_call& call, Function&& function) {
  NativeError error;
  Scratch scratch;
  callout_call whole = call;
  whole.error_context = &error;
  whole.set_error = &NativeError::Set;
  whole.allocator = &scratch;
  whole.allocate = &Scratch::Allocate;
  return Guarded([&] { return error.Outcome(std::forward<Function>(function)(&whole)); });
}

}  // namespace callout::internal
