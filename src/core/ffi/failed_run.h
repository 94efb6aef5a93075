// SPDX-License-Identifier: Apache-2.0
//
// What a device that fails owes to the others of its run: they may wait for it, see callbacks/meeting.h.
#pragma once

#include <utility>

#include "core/callbacks/meeting.h"
#include "core/frame/ffi_abi.h"
#include "core/frame/handler.h"

namespace callout::internal {

/// `status` of a handler; a failure is that of the run.
inline Status NoteOfRun(XLA_FFI_CallFrame* frame, Status status) {
  if (!status.ok()) [[unlikely]]
    WaitingRoom::Get().NoteFailure(RunId(frame), status);
  return status;
}

/// As WithState, for executions.
template <typename State, typename Body>
XLA_FFI_Error* RunWithState(XLA_FFI_CallFrame* frame, Body&& body) noexcept {
  return WithState<State>(frame,
                          [&](XLA_FFI_CallFrame*, State& state) { return NoteOfRun(frame, body(frame, state)); });
}

}  // namespace callout::internal
