// SPDX-License-Identifier: Apache-2.0
//
// What every handler does around its own work.
// Guard lets no exception cross the C boundary: XLA catches only std::exception and ends the process on anything else.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Runs `body`, which returns a Status, and hands over its error, or that of whatever it throws, to XLA.
template <typename Body>
XLA_FFI_Error* Guard(const XLA_FFI_Api* api, Body&& body) noexcept {
  try {
    return ToFfiError(api, std::forward<Body>(body)());
  } catch (...) {
    const Status caught = CaughtStatus();
    return ToFfiError(api, Status(caught.code(), std::string("callout: ") + caught.c_message()));
  }
}

/// Gives `state` to XLA, which destroys it with the executable.
template <typename State>
Status KeepState(XLA_FFI_CallFrame* frame, std::unique_ptr<State> state) {
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // XLA's now
  return OkStatus();
}

/// An instantiate handler: `body(frame)` returns a Status, and keeps a state if it is ok.
template <typename Body>
XLA_FFI_Error* Instantiate(XLA_FFI_CallFrame* frame, Body&& body) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [&] { return body(frame); });
}

/// A handler of a later stage: `body(frame, state)` returns a Status. `capturable`: as AnswerMetadata says.
template <typename State, typename Body>
XLA_FFI_Error* WithState(XLA_FFI_CallFrame* frame, Body&& body, bool capturable = false) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error, capturable)) return error;
  auto* state = static_cast<State*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return Guard(frame->api, [&] { return body(frame, *state); });
}

}  // namespace callout::internal
