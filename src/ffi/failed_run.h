// SPDX-License-Identifier: Apache-2.0
//
// What a device that fails owes to the others of its run: they may wait for it, see callbacks/waiting_room.h.
#pragma once

#include <utility>

#include "callbacks/waiting_room.h"
#include "frame/ffi_abi.h"
#include "frame/guard.h"

namespace callout::internal {

/// As Guard; a failure is that of the run.
template <typename Body>
XLA_FFI_Error* GuardRun(XLA_FFI_CallFrame* frame, Body&& body) noexcept {
  return Guard(frame->api, [&] {
    Status status = std::forward<Body>(body)();
    if (!status.ok()) [[unlikely]]
      WaitingRoom::Get().NoteFailure(RunId(frame), status);
    return status;
  });
}

}  // namespace callout::internal
