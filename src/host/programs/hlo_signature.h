// SPDX-License-Identifier: Apache-2.0
//
// The signature of a compiled program, from the HloModuleProto (xla/service/hlo.proto) that the plugin makes of it.
// PJRT itself tells only the types of outputs.
#pragma once

#include <string_view>

#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::internal {

/// `module`: an HloModuleProto. Errors: Internal for bytes that are no such message, and Unimplemented for shardings
/// that ParseSharding does not know.
Result<pjrt::Signature> ParseHloSignature(std::string_view module, size_t num_devices);

/// Buffers that hosts make are row-major, and plugins do not look whether a program wants another order: Unimplemented,
/// with the argument, if it does. Internal as above.
Status CheckArgumentLayouts(std::string_view module);

}  // namespace callout::internal
