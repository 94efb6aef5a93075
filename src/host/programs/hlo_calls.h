// SPDX-License-Identifier: Apache-2.0
//
// The places of a compiled program that call out, from its HloModuleProto (xla/service/hlo.proto).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::internal {

/// The calls in the order of the module's computations. `module`: an HloModuleProto. Internal for bytes that are no
/// such message.
Result<std::vector<pjrt::CallbackUse>> ParseHloCalls(std::string_view module);

/// As ParseHloCalls, of the custom calls that are not Callout's: only their targets, operands and results.
Result<std::vector<pjrt::CallbackUse>> ParseForeignCalls(std::string_view module);

/// The entries of a dictionary as MLIR writes it, `{callback = "f", every = 1 : i64}`: strings with their escapes
/// resolved, whole numbers as they are written, everything else as "".
std::map<std::string, std::string> ParseDictionary(std::string_view dictionary);

}  // namespace callout::internal
