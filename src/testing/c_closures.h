// SPDX-License-Identifier: Apache-2.0
//
// Shared parts of the tests of callout/c_api.h: conversion to Status, and closures.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "callout/c_api.h"
#include "callout/status.h"

namespace callout::testdata {

/// Converts `status`, and destroys it.
inline Status Take(callout_status* status) {
  if (status == nullptr) return OkStatus();
  Status taken(static_cast<StatusCode>(callout_status_code(status)), callout_status_message(status));
  callout_status_destroy(status);
  return taken;
}

/// The context of a closure over f32 arrays, which adds `k` to each element, or fails with `error` if that is set.
struct Adder {
  float k = 0;
  std::string error = {};
  std::atomic<int> calls{0};
  std::atomic<int> destroyed{0};
  std::atomic<int64_t> run_id{0};
  std::vector<float> seen = {};  ///< The first element of each tap.

  callout_closure closure() { return {sizeof(callout_closure), &Call, this, &Destroy}; }

 private:
  static int32_t Call(void* context, const callout_call* call) {
    auto* self = static_cast<Adder*>(context);
    ++self->calls;
    self->run_id = call->run_id;
    if (!self->error.empty()) {
      call->set_error(call->error_context, 15, self->error.data(), self->error.size());
      return 1;
    }
    const auto* x = static_cast<const float*>(call->args[0].data);
    if (call->num_results == 0) {
      self->seen.push_back(x[0]);
      return 0;
    }
    auto* y = static_cast<float*>(call->results[0].data);
    for (uint64_t i = 0; i < call->args[0].size_bytes / sizeof(float); ++i) y[i] = x[i] + self->k;
    return 0;
  }
  static void Destroy(void* context) { ++static_cast<Adder*>(context)->destroyed; }
};

/// Makes a callback that adds; returns null on an error.
inline callout_callback* MakeAdder(const char* name, Adder& adder) {
  const callout_closure closure = adder.closure();
  callout_callback* callback = nullptr;
  callout_status_destroy(callout_callback_from_closure(name, &closure, &callback));
  return callback;
}

}  // namespace callout::testdata
