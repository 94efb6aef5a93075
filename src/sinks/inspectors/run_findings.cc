// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/run_findings.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "core/base/fork_mutex.h"

namespace callout::internal {
namespace {

constexpr size_t kMostKept = 256;

struct Findings {
  ForkMutex mutex;
  std::deque<RunFinding> latest CALLOUT_GUARDED_BY(mutex);
};

Findings& All() {
  static auto* const all = new Findings;  // Leaked: programs may run while the process ends.
  return *all;
}

bool Follows(const RunFinding& found, bool from_infinite, const RunFinding& earlier) {
  if (earlier.run_id != found.run_id) return false;
  if (from_infinite && !earlier.is_nan && earlier.backward == found.backward) return true;
  return found.is_shard && earlier.device_ordinal != found.device_ordinal &&
         std::pair(earlier.backward, earlier.order) < std::pair(found.backward, found.order);
}

bool IsSame(const RunFinding& one, const RunFinding& other) {
  return one.run_id == other.run_id && one.device_ordinal == other.device_ordinal && one.order == other.order &&
         one.is_nan == other.is_nan;
}

}  // namespace

bool AddRunFinding(const RunFinding& found, bool from_infinite) {
  Findings& all = All();
  MutexLock lock(all.mutex);
  if (found.run_id != 0 && std::any_of(all.latest.begin(), all.latest.end(), [&](const RunFinding& earlier) {
        return Follows(found, from_infinite, earlier);
      })) {
    return false;
  }
  if (std::none_of(all.latest.begin(), all.latest.end(),
                   [&](const RunFinding& earlier) { return IsSame(found, earlier); })) {
    if (all.latest.size() == kMostKept) all.latest.pop_front();
    all.latest.push_back(found);
  }
  return true;
}

}  // namespace callout::internal
