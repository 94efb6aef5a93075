// SPDX-License-Identifier: Apache-2.0
//
// Attribute `deferred`: a failure becomes a number in the last result, and callout.v1.check raises it on every device.
#pragma once

#include <cstdint>
#include <span>

#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// The number of `outcome`, which is kept if it is a failure. InvalidArgument if there is no s32[] at the end of
/// `results`.
Result<int32_t> DeferredNumber(const Status& outcome, std::span<const callout_buffer> results);

/// Writes the number of `outcome` (0: no failure) to the last of `results`; zeroes the others if it failed.
/// InvalidArgument if there is no s32[] at the end.
Status Defer(const Status& outcome, std::span<const callout_buffer> results);

}  // namespace callout::internal
