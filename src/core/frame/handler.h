// SPDX-License-Identifier: Apache-2.0
//
// The wrappers of every handler. Guard lets no exception cross the C boundary, because XLA catches only std::exception
// and ends the process on any other.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Runs `body`, which returns a Status, and passes its error or its exception to XLA.
template <typename Body>
XLA_FFI_Error* Guard(const XLA_FFI_Api* api, Body&& body) noexcept {
  try {
    return ToFfiError(api, std::forward<Body>(body)());
  } catch (...) {
    const Status caught = CaughtStatus();
    return ToFfiError(api, caught.WithMessage(std::string("callout: ") + caught.c_message()));
  }
}

/// Gives `state` to XLA, which destroys it with the executable.
template <typename State>
Status KeepState(XLA_FFI_CallFrame* frame, std::unique_ptr<State> state) {
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // owned by XLA now
  return OkStatus();
}

/// Runs an instantiate handler: `body(frame)` returns a Status, and keeps a state on success.
template <typename Body>
XLA_FFI_Error* Instantiate(XLA_FFI_CallFrame* frame, Body&& body) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [&] { return body(frame); });
}

/// Runs a handler of a later stage: `body(frame, state)` returns a Status. `capturable`: see AnswerMetadata.
template <typename State, typename Body>
XLA_FFI_Error* WithState(XLA_FFI_CallFrame* frame, Body&& body, bool capturable = false) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error, capturable)) return error;
  auto* state = static_cast<State*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return Guard(frame->api, [&] { return body(frame, *state); });
}

}  // namespace callout::internal
