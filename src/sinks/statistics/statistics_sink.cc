// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/statistics_sink.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/frame/buffer.h"
#include "core/frame/elements.h"
#include "sinks/each_sink_kind.h"

namespace callout::internal {
namespace {

// Returns whether all widths are equal, within rounding, so that an element's bin can be computed.
bool AreEven(const std::vector<double>& edges) {
  // Relative to a width. An element then is in the computed bin or in a neighbour of it.
  constexpr double kTolerance = 1e-6;
  const double width = (edges.back() - edges.front()) / static_cast<double>(edges.size() - 1);
  if (!std::isnormal(width)) return false;
  for (size_t i = 0; i < edges.size(); ++i) {
    const double even = edges.front() + static_cast<double>(i) * width;
    if (!(std::abs(edges[i] - even) <= kTolerance * width)) return false;
  }
  return true;
}

}  // namespace

FixedBins::FixedBins(std::vector<double> edges)
    : edges_(std::move(edges)), counts_(edges_.size() - 1), is_even_(AreEven(edges_)) {}

void FixedBins::Add(const double* values, size_t count) { is_even_ ? AddEven(values, count) : AddAny(values, count); }

void FixedBins::AddEven(const double* values, size_t count) {
  const double first = edges_.front(), last = edges_.back();
  const size_t bins = counts_.size();
  const double scale = static_cast<double>(bins) / (last - first);
  for (size_t i = 0; i < count; ++i) {
    const double value = values[i];
    if (value < first || value > last) continue;
    const auto near = static_cast<size_t>((value - first) * scale);
    size_t bin = near < bins ? near : bins - 1;
    bin -= value < edges_[bin] ? 1 : 0;
    bin += value >= edges_[bin + 1] && bin + 1 < bins ? 1 : 0;
    ++counts_[bin];
  }
}

void FixedBins::AddAny(const double* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const double value = values[i];
    if (value < edges_.front() || value > edges_.back()) continue;
    const auto above = std::upper_bound(edges_.begin(), edges_.end() - 1, value);
    ++counts_[static_cast<size_t>(above - edges_.begin()) - 1];
  }
}

void FixedBins::Merge(const FixedBins& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

namespace {

constexpr int64_t kPart = 1024;  // In elements: 8 KB as doubles, which stay in the first-level cache.

}  // namespace

LeafStatistics::LeafStatistics(const StatisticsOptions& options) {
  if (options.quantiles) sketch_.emplace();
  if (!options.edges.empty()) bins_.emplace(options.edges);
}

Status LeafStatistics::Add(const callout_buffer& buffer) {
  double values[kPart];
  const int64_t elements = ElementCount(buffer);
  for (int64_t first = 0; first < elements; first += kPart) {
    const auto count = static_cast<size_t>(std::min(kPart, elements - first));
    CALLOUT_RETURN_IF_ERROR(ReadDoubles(buffer, first, count, values));
    const Part part = moments_.Add(values, count);
    if (sketch_) sketch_->Add(part);
    if (bins_) bins_->Add(part.values, part.count);
  }
  ++records_;
  return OkStatus();
}

Status LeafStatistics::Merge(const LeafStatistics& other) {
  if (sketch_.has_value() != other.sketch_.has_value()) {
    return InvalidArgument("callout: cannot merge statistics with quantiles and statistics without");
  }
  if (bins_.has_value() != other.bins_.has_value() || (bins_ && bins_->edges() != other.bins_->edges())) {
    return InvalidArgument("callout: cannot merge histograms of different edges");
  }
  records_ += other.records_;
  moments_.Merge(other.moments_);
  if (sketch_) sketch_->Merge(*other.sketch_);
  if (bins_) bins_->Merge(*other.bins_);
  return OkStatus();
}

std::vector<uint64_t> LeafStatistics::CountsBetween(std::span<const double> edges) const {
  std::vector<double> below = sketch_->CountsBelow(edges);
  // The last bin includes its upper edge.
  if (moments_.count() > 0 && edges.back() >= moments_.max()) below.back() = static_cast<double>(moments_.count());
  std::vector<uint64_t> counts;
  for (size_t i = 1; i < below.size(); ++i) {
    counts.push_back(static_cast<uint64_t>(std::round(below[i]) - std::round(below[i - 1])));
  }
  return counts;
}

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
  // Locks for the whole record, so that readers see whole records.
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
