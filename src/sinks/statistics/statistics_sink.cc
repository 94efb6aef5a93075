// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/statistics_sink.h"

#include <algorithm>
#include <cmath>

#include "sinks/each_sink_kind.h"

namespace callout::internal {
namespace {

Result<std::shared_ptr<Callback>> MakeStatistics(const std::string& label, const SinkOptions& /*options*/) {
  return std::shared_ptr<Callback>(
      std::make_shared<StatisticsSink>(label, StatisticsOptions{.quantiles = false, .edges = {}}));
}

Result<std::shared_ptr<Callback>> MakeHistogram(const std::string& label, const SinkOptions& options) {
  std::vector<double> edges = options.Numbers("edges");
  const bool are_numbers = std::all_of(edges.begin(), edges.end(), [](double edge) { return std::isfinite(edge); });
  if (edges.size() == 1 || !are_numbers || !std::is_sorted(edges.begin(), edges.end())) {
    return InvalidArgument("callout: the edges of bins must be two or more ascending numbers");
  }
  return std::shared_ptr<Callback>(std::make_shared<StatisticsSink>(
      label, StatisticsOptions{.quantiles = options.Flag("quantiles"), .edges = std::move(edges)}));
}

}  // namespace

const SinkKind& StatisticsKind() {
  static constexpr SinkKind kKind = {
      .name = "statistics", .options = {}, .has_main = false, .is_for_hosts = false, .make = &MakeStatistics};
  return kKind;
}

const SinkKind& HistogramKind() {
  static constexpr SinkOption kOptions[] = {
      {"quantiles", OptionType::kFlag, "true", "keep a sketch of them"},
      {"edges", OptionType::kNumbers, "none", "an edge of the bins that are counted exactly; given once for each"},
  };
  static constexpr SinkKind kKind = {
      .name = "histogram", .options = kOptions, .has_main = false, .is_for_hosts = false, .make = &MakeHistogram};
  return kKind;
}

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
