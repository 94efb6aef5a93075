// SPDX-License-Identifier: Apache-2.0
//
// Compiled programs as the plugin's own bytes, and back.
#pragma once

#include <string>
#include <string_view>

#include "callout/pjrt/client.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// Errors: those of the plugin; Unimplemented where it has no such bytes.
Result<std::string> SerializeExecutable(const PjrtApi& api, PJRT_LoadedExecutable* executable);

/// The plugin believes `bytes`: they are code. Call sites are instantiated on this thread, as by a compilation.
/// `options`: a CompileOptionsProto, or empty for that with which it was compiled.
Result<PJRT_LoadedExecutable*> LoadSerialized(const pjrt::Client& client, std::string_view bytes,
                                              const std::string& options);

}  // namespace callout::internal
