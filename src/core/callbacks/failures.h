// SPDX-License-Identifier: Apache-2.0
//
// Failures that a program carries as a number until all its devices know of them.
//
// When one device of a program fails while others wait for it in a collective, XLA:CPU ends the process after 40
// seconds (seen in jaxlib 0.10.2 to 0.12). So where one device runs a callback for all devices, its failure is kept
// here, its number is summed over the devices with the results, and then every device fails at the same place.
#pragma once

#include <cstdint>
#include <optional>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// Keeps a failure and returns its number, which is positive. Numbers begin at random, so that a number of another
/// process is not found here. The last 256 failures are kept. Thread-safe.
CALLOUT_EXPORT int32_t KeepFailure(const Status& failure);

/// Returns the failure with this number; empty if another process has it. Thread-safe.
CALLOUT_EXPORT std::optional<Status> FindFailure(int32_t number);

}  // namespace callout::internal
