// SPDX-License-Identifier: Apache-2.0
//
// No exception crosses the C boundary: XLA catches only std::exception and ends the process on anything else.
#pragma once

#include <string>
#include <utility>

#include "core/base/caught.h"
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

}  // namespace callout::internal
