// SPDX-License-Identifier: Apache-2.0
#include "registry/stats_table.h"

#include <map>

#include "base/fork_mutex.h"
#include "registry/callback.h"

namespace callout::internal {
namespace {

constexpr size_t kMaxLabels = 4096;

struct Table {
  ForkMutex mutex;
  std::map<std::string, std::shared_ptr<CallbackStats>> by_label CALLOUT_GUARDED_BY(mutex);
};

Table& GetTable() {
  static Table* const table = new Table;  // leaked: callbacks are destroyed during static destruction
  return *table;
}

}  // namespace

std::shared_ptr<CallbackStats> StatsFor(const std::string& label) {
  Table& table = GetTable();
  MutexLock lock(table.mutex);
  if (auto it = table.by_label.find(label); it != table.by_label.end()) return it->second;
  if (table.by_label.size() >= kMaxLabels) {
    std::erase_if(table.by_label, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  return table.by_label.emplace(label, std::make_shared<CallbackStats>()).first->second;
}

std::vector<std::pair<std::string, std::shared_ptr<CallbackStats>>> AllStats() {
  Table& table = GetTable();
  MutexLock lock(table.mutex);
  return {table.by_label.begin(), table.by_label.end()};
}

void ResetStats() {
  Table& table = GetTable();
  MutexLock lock(table.mutex);
  std::erase_if(table.by_label, [](const auto& entry) { return entry.second.use_count() == 1; });
  for (auto& [label, stats] : table.by_label) {
    for (auto* counter :
         {&stats->calls, &stats->bytes, &stats->host_ticks, &stats->drops, &stats->skips, &stats->errors}) {
      counter->store(0, std::memory_order_relaxed);
    }
    stats->tap_error_logged.store(false, std::memory_order_relaxed);
  }
}

}  // namespace callout::internal
