// SPDX-License-Identifier: Apache-2.0
//
// Where the events of a recording lie in a timeline: rows for each device (what the program's threads did), for each
// delivery thread, for the user's Python functions and for the phases of a host program. What overlaps, since several
// threads ran a program at once, goes to further rows of the same group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/profile/recorder.h"

namespace callout::internal {

enum class RowGroup : int { kPhases, kDevice, kDelivery, kFunctions };

struct Row {
  RowGroup group;
  int32_t device;   ///< kDevice.
  uint32_t thread;  ///< kDelivery: index into the recording's threads.
  uint32_t number;  ///< Among the rows of its group, device and thread; from 0.
  std::string name;
};

struct Rows {
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Row> rows;     ///< From the top of a picture to its bottom.
  std::vector<uint32_t> of;  ///< One an event: its row, or kNone (kQueue).
};

/// Sorts the events by begin, parents first; gives what has no label its parent's label, device and worker; and finds
/// everybody's row. Within a row, spans are apart or one lies in the other.
CALLOUT_EXPORT Rows ArrangeRows(Recording& recording);

}  // namespace callout::internal
