// SPDX-License-Identifier: Apache-2.0
#include "callbacks/stats_table.h"

#include <optional>

#include "base/name_table.h"
#include "callbacks/callback.h"

namespace callout::internal {
namespace {

NameTable<CallbackStats>& StatsByLabel() {
  static auto* const table = new NameTable<CallbackStats>;  // leaked: callbacks end during static destruction
  return *table;
}

}  // namespace

std::shared_ptr<CallbackStats> StatsFor(const std::string& label) { return StatsByLabel().Find(label); }

std::vector<std::pair<std::string, std::shared_ptr<CallbackStats>>> AllStats() { return StatsByLabel().All(); }

void ResetStats() {
  StatsByLabel().Reset(std::nullopt, [](CallbackStats& stats) {
    for (auto* counter : {&stats.calls, &stats.bytes, &stats.host_ticks, &stats.drops, &stats.skips, &stats.errors}) {
      counter->store(0, std::memory_order_relaxed);
    }
    stats.tap_error_logged.store(false, std::memory_order_relaxed);
  });
}

}  // namespace callout::internal
