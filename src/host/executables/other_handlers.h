// SPDX-License-Identifier: Apache-2.0
//
// Handlers in a plugin's runtime that are not Callout's own targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/client.h"
#include "callout/status.h"

namespace callout::internal {

/// Gives the runtime of a CPU client the handlers of LAPACK, if `code` may call them and nobody gave it others of their
/// names. Thread-safe.
Status ProvideLapack(const pjrt::Client& client, std::string_view code);

/// Who has the function of a custom call that is not Callout's own: "the host", "LAPACK of 'PATH'", "the plugin".
/// Thread-safe.
std::string GiverOf(const pjrt::Plugin& plugin, const std::string& target);

/// The targets that the host registered with Plugin::RegisterHandler. Thread-safe.
std::vector<std::string> RegisteredTargets(const pjrt::Plugin& plugin);

/// Stands for a handler that another process has: only its executions fail.
XLA_FFI_Error* HandlerOfAnotherProcess(XLA_FFI_CallFrame* frame) noexcept;

/// `error` of a compilation, with what to do where a custom call has no handler.
Status ExplainMissingHandler(Status error);

}  // namespace callout::internal
