// SPDX-License-Identifier: Apache-2.0
//
// What was found in each run of late, on all its devices: what follows from it is not where it began.
#pragma once

#include <cstdint>

namespace callout::internal {

struct RunFinding {
  int64_t run_id = 0;
  int32_t device_ordinal = 0;
  uint64_t order = 0;  ///< Of its place in the program.
  bool is_nan = false;
  bool backward = false;
  bool is_shard = false;  ///< The device has a shard of the whole; its inputs may come from others.
};

/// False if `found` follows from another finding of its run: it is NaN that comes of infinite inputs, and there was an
/// infinity in the same direction; or it is in a shard, and another device found something at an earlier place.
/// Thread-safe.
bool AddRunFinding(const RunFinding& found, bool from_infinite);

}  // namespace callout::internal
