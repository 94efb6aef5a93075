// SPDX-License-Identifier: Apache-2.0
//
// A sink that counts, and is asked at any time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "core/base/thread_annotations.h"
#include "sinks/sink.h"
#include "sinks/statistics/leaf_statistics.h"

namespace callout::internal {

class CALLOUT_EXPORT StatisticsSink final : public Sink {
 public:
  /// (tap, leaf): the tap's name and the leaf's, "" for a value that is a single array. Several taps of one name, and
  /// all devices, count together.
  using Key = std::pair<std::string, std::string>;

  StatisticsSink(std::string label, StatisticsOptions options) : Sink(std::move(label)), options_(std::move(options)) {}
  Status Deliver(const Record& record) override;

  /// What whole records came to. May wait for the record that is being counted: call it without the GIL. Thread-safe.
  std::vector<std::pair<Key, LeafStatistics>> Snapshot() const;
  /// As Snapshot, of one leaf; empty if nothing came of it. Thread-safe.
  std::optional<LeafStatistics> Find(const Key& key) const;
  std::vector<Key> Keys() const;
  /// Forgets everything. Thread-safe.
  void Reset();

 private:
  const StatisticsOptions options_;
  mutable Mutex mutex_;
  std::map<Key, LeafStatistics> leaves_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
