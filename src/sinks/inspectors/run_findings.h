// SPDX-License-Identifier: Apache-2.0
//
// Remembers what `callout.locate_nans` found in recent runs, on all of their devices, so that a NaN that follows from
// another one is not reported.
#pragma once

#include <cstdint>

namespace callout::internal {

struct RunFinding {
  int64_t run_id = 0;
  int32_t device_ordinal = 0;
  uint64_t order = 0;  ///< The order of the line in the program.
  bool is_nan = false;
  bool backward = false;
  bool is_shard = false;  ///< The device has a shard of the value; its inputs may come from other devices.
};

/// Adds a finding. Returns false if `found` follows from an earlier finding of its run: NaN from infinite inputs
/// follows from an infinity in the same direction, and a finding in a shard follows from one at an earlier line on
/// another device. Thread-safe.
bool AddRunFinding(const RunFinding& found, bool from_infinite);

}  // namespace callout::internal
