// SPDX-License-Identifier: Apache-2.0
//
// Statistics outlive the callbacks that they count: an eager tap's callback lives for one call. They are kept by label,
// and the table is bounded, so that a program that makes up labels does not grow it for ever.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "callout/export.h"

namespace callout::internal {

struct CallbackStats;

/// The counters of `label`, made if needed. Thread-safe.
CALLOUT_EXPORT std::shared_ptr<CallbackStats> StatsFor(const std::string& label);

/// All counters, by label, in order. Thread-safe.
CALLOUT_EXPORT std::vector<std::pair<std::string, std::shared_ptr<CallbackStats>>> AllStats();

/// Forgets labels without a live callback and zeroes the rest. Thread-safe.
CALLOUT_EXPORT void ResetStats();

}  // namespace callout::internal
