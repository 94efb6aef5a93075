// SPDX-License-Identifier: Apache-2.0
//
// Native functions that a program carries within it, as the bytes of a shared library. SECURITY.md says what that
// means.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/callbacks/callback.h"

namespace callout::internal {

/// What the program says. Borrowed: only read during the call.
struct EmbeddedLibrary {
  std::string_view bytes;
  std::string_view digest;    ///< SHA-256 of `bytes` in hexadecimal.
  std::string_view platform;  ///< Where it runs, see NativePlatform.
  std::string_view symbol;    ///< As in LoadNativeFunction.
};

/// "linux-x86_64": the operating system and the processor that this core was built for.
CALLOUT_EXPORT std::string NativePlatform();

/// The function `symbol` of the library, as a callback. A library is loaded once a process, and stays.
/// FailedPrecondition if embedded code is refused (embedded_code.h) or it is for another platform, InvalidArgument if
/// its bytes are not those that `digest` was made of. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> LoadEmbeddedFunction(const std::string& label,
                                                                      const EmbeddedLibrary& library);

}  // namespace callout::internal
