// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/watch_table.h"

#include "core/base/name_table.h"

namespace callout::internal {
namespace {

NameTable<WatchEntry>& WatchesByName() {
  static auto* const table = new NameTable<WatchEntry>;  // leaked: programs may run during static destruction
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

std::shared_ptr<WatchEntry> WatchEntryFor(const std::string& name) { return WatchesByName().Find(name); }

std::vector<std::pair<std::string, WatchCounts>> AllWatches() {
  std::vector<std::pair<std::string, WatchCounts>> all;
  for (const auto& [name, entry] : WatchesByName().All()) all.emplace_back(name, entry->counts());
  return all;
}

void ResetWatches(const std::optional<std::string>& name) {
  WatchesByName().Reset(name, [](WatchEntry& entry) { entry.Clear(); });
}

}  // namespace callout::internal
