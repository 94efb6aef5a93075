// SPDX-License-Identifier: Apache-2.0
//
// What a native function may ask of its call: to report an error, and memory until it returns.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/caught.h"
#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// What `set_error` was told.
struct NativeError {
  StatusCode code = StatusCode::kInternal;
  std::string message;

  static void Set(void* error, int32_t code, const char* message, size_t length);
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

/// Calls `function(const callout_call*)`, which returns 0 or a code; whatever it throws becomes a Status. Thread-safe.
template <typename Function>
Status CallNative(const callout_call& call, Function&& function) {
  NativeError error;
  Scratch scratch;
  callout_call with_error = call;
  with_error.error_context = &error;
  with_error.set_error = &NativeError::Set;
  with_error.allocator = &scratch;
  with_error.allocate = &Scratch::Allocate;
  int32_t code = 0;
  try {
    code = std::forward<Function>(function)(&with_error);
  } catch (...) {
    return CaughtStatus();
  }
  if (code == 0) [[likely]]
    return OkStatus();
  if (error.message.empty()) error.message = "the function returned error code " + std::to_string(code);
  return Status(error.code, std::move(error.message));
}

}  // namespace callout::internal
