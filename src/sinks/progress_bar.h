// SPDX-License-Identifier: Apache-2.0
//
// A progress bar that a program carries, as the name "progress_bar:PAYLOAD". Python draws it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

inline constexpr std::string_view kProgressBarKind = "progress_bar";

/// Without Python: takes the bar's messages and forgets them, whatever the payload is. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeProgressBar(const std::string& label, std::string_view payload);

}  // namespace callout::internal
