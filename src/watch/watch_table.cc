// SPDX-License-Identifier: Apache-2.0
#include "watch/watch_table.h"

namespace callout::internal {
namespace {

constexpr size_t kMaxNames = 4096;

struct Table {
  ForkMutex mutex;
  std::map<std::string, std::shared_ptr<WatchEntry>> by_name CALLOUT_GUARDED_BY(mutex);
};

Table& GetTable() {
  static Table* const table = new Table;  // leaked: programs may run during static destruction
  return *table;
}

}  // namespace

bool WatchEntry::Add(const Record& record, uint64_t elements, const NonFinite& found,
                     std::optional<WatchedPlace>& place) {
  MutexLock lock(mutex_);
  int64_t& next = next_step_[record.device_ordinal];
  const int64_t step = record.step ? *record.step : StepAfter(next, record.unsent);
  next = StepAfter(step, 1);
  ++counts_.calls;
  counts_.elements += elements;
  counts_.nan += found.nan;
  counts_.infinite += found.infinite;
  if (!place) return false;
  place->step = step;
  if (counts_.bad_calls++ > 0) return false;
  counts_.first = place;
  return true;
}

WatchCounts WatchEntry::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

void WatchEntry::Clear() {
  MutexLock lock(mutex_);
  counts_ = {};
  next_step_.clear();
}

std::shared_ptr<WatchEntry> WatchEntryFor(const std::string& name) {
  Table& table = GetTable();
  MutexLock lock(table.mutex);
  if (const auto it = table.by_name.find(name); it != table.by_name.end()) return it->second;
  if (table.by_name.size() >= kMaxNames) {
    std::erase_if(table.by_name, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  return table.by_name.emplace(name, std::make_shared<WatchEntry>()).first->second;
}

std::vector<std::pair<std::string, WatchCounts>> AllWatches() {
  std::vector<std::pair<std::string, WatchCounts>> all;
  Table& table = GetTable();
  MutexLock lock(table.mutex);
  for (const auto& [name, entry] : table.by_name) all.emplace_back(name, entry->counts());
  return all;
}

void ResetWatches(const std::optional<std::string>& name) {
  Table& table = GetTable();
  MutexLock lock(table.mutex);
  const auto is_meant = [&](const std::string& candidate) { return !name || candidate == *name; };
  std::erase_if(table.by_name,
                [&](const auto& entry) { return is_meant(entry.first) && entry.second.use_count() == 1; });
  for (auto& [candidate, entry] : table.by_name) {
    if (is_meant(candidate)) entry->Clear();
  }
}

}  // namespace callout::internal
