// SPDX-License-Identifier: Apache-2.0
//
// Handlers note the failure of a run, so that the run's other devices do not wait for ever: see callbacks/rendezvous.h.
#pragma once

#include <utility>

#include "core/callbacks/rendezvous.h"
#include "core/frame/ffi_abi.h"
#include "core/frame/handler.h"

namespace callout::internal {

/// Notes `status` for the run if it is a failure, and returns it.
inline Status NoteOfRun(XLA_FFI_CallFrame* frame, Status status) {
  if (!status.ok()) [[unlikely]]
    RendezvousMonitor::Get().NoteFailure(RunId(frame), status);
  return status;
}

/// Runs `body` with the state, like WithState, and notes a failure for the run.
template <typename State, typename Body>
XLA_FFI_Error* RunWithState(XLA_FFI_CallFrame* frame, Body&& body) noexcept {
  return WithState<State>(frame,
                          [&](XLA_FFI_CallFrame*, State& state) { return NoteOfRun(frame, body(frame, state)); });
}

}  // namespace callout::internal
