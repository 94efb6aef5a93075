// SPDX-License-Identifier: Apache-2.0
//
// A host for test_host.py. It takes a closure and calls it on threads of its own, and does not depend on Python.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "callout/abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr uint32_t kFloat32 = 11;

void KeepText(void* text, int32_t /*code*/, const char* message, size_t length) {
  static_cast<std::string*>(text)->assign(message, length);
}

// Calls a closure with vectors of `n` floats; without a result if `out` is null.
int32_t Call(const callout_closure& closure, const float* in, float* out, int64_t n, std::string* text) {
  const uint64_t bytes = static_cast<uint64_t>(n) * sizeof(float);
  const callout_buffer argument = {kFloat32, 1, const_cast<float*>(in), &n, bytes};
  const callout_buffer result = {kFloat32, 1, out, &n, bytes};
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = 1;
  call.num_results = out == nullptr ? 0 : 1;
  call.args = &argument;
  call.results = &result;
  call.device_ordinal = -1;
  call.error_context = text;
  call.set_error = &KeepText;
  return closure.call(closure.context, &call);
}

callout_closure at_exit = {};

}  // namespace

/// Takes a closure for the host; null if it was taken before.
EXPORT callout_closure* host_take(callout_closure* closure) {
  if (closure->struct_size == 0) return nullptr;
  return new callout_closure(callout_closure_take(closure));
}

/// Calls a closure on a new thread, which then ends. Returns the code of the call, and its message in `text`, cut to
/// `size`.
EXPORT int32_t host_call(const callout_closure* closure, const float* in, float* out, int64_t n, char* text,
                         size_t size) {
  int32_t code = -1;
  std::string message;
  std::thread([&] { code = Call(*closure, in, out, n, &message); }).join();
  std::snprintf(text, size, "%s", message.c_str());
  return code;
}

/// Destroys a closure on a new thread.
EXPORT void host_drop(callout_closure* closure) {
  std::thread([closure] {
    closure->destroy(closure->context);
    delete closure;
  }).join();
}

/// Calls a closure and destroys it when the process exits: after the interpreter.
EXPORT void host_call_at_exit(callout_closure* closure) {
  at_exit = callout_closure_take(closure);
  std::atexit([] {
    const float in = 1;
    float out = 0;
    std::string text;
    const int32_t code = Call(at_exit, &in, &out, 1, &text);
    std::printf("%d %s\n", code, text.c_str());
    at_exit.destroy(at_exit.context);
    std::puts("ended");
    std::fflush(stdout);
  });
}
