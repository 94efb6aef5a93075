// SPDX-License-Identifier: Apache-2.0
#include "core/base/live_count.h"

namespace callout::internal {

std::atomic<int64_t>& LiveCounter(LiveKind kind) {
  static std::atomic<int64_t> counters[static_cast<int>(LiveKind::kKindCount)];
  return counters[static_cast<int>(kind)];
}

}  // namespace callout::internal
