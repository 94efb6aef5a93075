// SPDX-License-Identifier: Apache-2.0
//
// What can be made of text: the one place that knows all kinds of it. Whoever looks names up (registry/) or decodes
// programs (ffi/) knows makers only.
#pragma once

#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// Lets programs and hosts have the core's kinds by their names (registry/makers.h). Whoever makes a runtime run
/// programs calls it before. Idempotent. Thread-safe.
CALLOUT_EXPORT void RegisterKinds();

/// What people call a callback that programs name so and that needs no binding; null for other names. Thread-safe.
CALLOUT_EXPORT const char* ProgramKindOf(std::string_view name);

}  // namespace callout::internal
