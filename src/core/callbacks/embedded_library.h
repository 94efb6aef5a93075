// SPDX-License-Identifier: Apache-2.0
//
// Native code that programs carry: whether it may be loaded, and the functions of its shared libraries. SECURITY.md
// explains the consequences of loading.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// Sets whether programs may load embedded code in this process, unless their compilation decides
/// (BindingScope::SetEmbeddedCode). The initial value comes from the environment variable CALLOUT_EMBEDDED_CODE; code
/// is allowed if the variable is not set, and refused if its text is not understood. Thread-safe.
CALLOUT_EXPORT void AllowEmbeddedCode(bool allow);

/// Returns FailedPrecondition if this thread's compilation, or else the process, refuses embedded code. `what` is the
/// code's name in the message, "the native function 'f'". Thread-safe.
CALLOUT_EXPORT Status CheckEmbeddedCode(const std::string& what);

/// A library in a program. Borrowed: only read during the call.
struct EmbeddedLibrary {
  std::string_view bytes;
  std::string_view digest;    ///< SHA-256 of `bytes` in hexadecimal.
  std::string_view platform;  ///< The library's platform, see NativePlatform.
  std::string_view symbol;    ///< The function's symbol, see LoadNativeFunction.
};

/// Returns "linux-x86_64": the operating system and the processor of this core's build.
CALLOUT_EXPORT std::string NativePlatform();

/// Returns the function `symbol` of the library, as a callback. A library is loaded once per process, and stays loaded.
/// FailedPrecondition if embedded code is refused or the library is for another platform, InvalidArgument if `digest`
/// is not the digest of its bytes. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> LoadEmbeddedFunction(const std::string& label,
                                                                      const EmbeddedLibrary& library);

}  // namespace callout::internal
