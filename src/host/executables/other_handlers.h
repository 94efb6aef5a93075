// SPDX-License-Identifier: Apache-2.0
//
// Handlers in a plugin's runtime for custom calls that are not Callout's own.
#pragma once

#include <string>
#include <string_view>

#include "callout/pjrt/client.h"
#include "callout/status.h"

namespace callout::internal {

/// Gives the runtime of a CPU client the handlers of LAPACK, if `code` may call them and nobody has registered others
/// under their names. Thread-safe.
Status ProvideLapack(const pjrt::Client& client, std::string_view code);

/// Names the owner of the handler for a custom call that is not Callout's own: "the host", "LAPACK of 'PATH'", "the
/// plugin". Thread-safe.
std::string GiverOf(const pjrt::Plugin& plugin, const std::string& target);

/// Adds to `error`, of a compilation, what to do about a custom call that has no handler.
Status ExplainMissingHandler(Status error);

}  // namespace callout::internal
