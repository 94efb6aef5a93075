// SPDX-License-Identifier: Apache-2.0
//
// Native code that programs carry: whether it may be loaded, and the functions in shared libraries. SECURITY.md says
// what loading means.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// Sets what holds in this process for programs whose compilation says nothing else (BindingScope::SetEmbeddedCode).
/// At first the environment variable CALLOUT_EMBEDDED_CODE says it; code is allowed where the variable is not set, and
/// refused where its text is not understood. Thread-safe.
CALLOUT_EXPORT void AllowEmbeddedCode(bool allow);

/// FailedPrecondition if this thread's compilation, or else the process, refuses code that programs carry. `what`: "the
/// native function 'f'". Thread-safe.
CALLOUT_EXPORT Status CheckEmbeddedCode(const std::string& what);

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
/// FailedPrecondition if embedded code is refused or it is for another platform, InvalidArgument if
/// its bytes are not those that `digest` was made of. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> LoadEmbeddedFunction(const std::string& label,
                                                                      const EmbeddedLibrary& library);

}  // namespace callout::internal
