// SPDX-License-Identifier: Apache-2.0
//
// `callout.error_if`, `warn_if` and `check`: a tap whose first array is a predicate, which is read where it lies. Where
// it is true, the program fails with a text of the values there, or a warning is logged. Nothing is sent otherwise.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/inspectors/check_payload.h"

namespace callout::internal {

inline constexpr std::string_view kCheckKind = "check";

/// The predicate is the first of `text.operands`. A warning is logged at the 1st, 2nd, 4th, 8th, ... time.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeCheck(std::string label, CheckText text);

/// As MakeCheck, of what a program says: see ParseCheck.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeCheckOf(const std::string& label, std::string_view payload);

}  // namespace callout::internal
