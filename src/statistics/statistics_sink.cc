// SPDX-License-Identifier: Apache-2.0
#include "statistics/statistics_sink.h"

namespace callout::internal {

Status StatisticsSink::Deliver(const Record& record) {
  // A reader waits for the whole record, so that what it gets is of whole records.
  MutexLock lock(mutex_);
  Key key(record.site->label, {});
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    key.second = record.site->leaf_names[i];
    CALLOUT_RETURN_IF_ERROR(leaves_.try_emplace(key, options_).first->second.Add(record.buffers[i]));
  }
  return OkStatus();
}

std::vector<std::pair<StatisticsSink::Key, LeafStatistics>> StatisticsSink::Snapshot() const {
  MutexLock lock(mutex_);
  return {leaves_.begin(), leaves_.end()};
}

std::optional<LeafStatistics> StatisticsSink::Find(const Key& key) const {
  MutexLock lock(mutex_);
  const auto it = leaves_.find(key);
  if (it == leaves_.end()) return std::nullopt;
  return it->second;
}

std::vector<StatisticsSink::Key> StatisticsSink::Keys() const {
  MutexLock lock(mutex_);
  std::vector<Key> keys;
  for (const auto& [key, statistics] : leaves_) keys.push_back(key);
  return keys;
}

void StatisticsSink::Reset() {
  MutexLock lock(mutex_);
  leaves_.clear();
}

}  // namespace callout::internal
