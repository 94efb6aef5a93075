// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/leaf_statistics.h"

#include <algorithm>
#include <cmath>

#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::internal {
namespace {

constexpr int64_t kPart = 1024;  // elements: 8 KB as doubles, which stay in the first-level cache

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
  // The last bin has its upper edge in it.
  if (moments_.count() > 0 && edges.back() >= moments_.max()) below.back() = static_cast<double>(moments_.count());
  std::vector<uint64_t> counts;
  for (size_t i = 1; i < below.size(); ++i) {
    counts.push_back(static_cast<uint64_t>(std::round(below[i]) - std::round(below[i - 1])));
  }
  return counts;
}

}  // namespace callout::internal
