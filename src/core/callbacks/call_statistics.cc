// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/call_statistics.h"

#include <optional>

#include "core/base/name_table.h"
#include "core/callbacks/callback.h"

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
  StatsByLabel().Reset(std::nullopt, [](CallbackStats& stats) { stats.Reset(); });
}

}  // namespace callout::internal
