// SPDX-License-Identifier: Apache-2.0
//
// All that is counted of one leaf of a tap's value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "sinks/statistics/fixed_bins.h"
#include "sinks/statistics/moments.h"
#include "sinks/statistics/quantile_sketch.h"

namespace callout::internal {

struct StatisticsOptions {
  bool quantiles = true;      ///< Keep a QuantileSketch.
  std::vector<double> edges;  ///< Of FixedBins; none: there are none.
};

/// Not thread-safe; a copy is a snapshot.
class CALLOUT_EXPORT LeafStatistics {
 public:
  explicit LeafStatistics(const StatisticsOptions& options);

  /// InvalidArgument, and nothing is added, for tokens and types that are not known.
  Status Add(const callout_buffer& buffer);
  /// InvalidArgument if the other one keeps something else.
  Status Merge(const LeafStatistics& other);

  uint64_t records() const { return records_; }
  const Moments& moments() const { return moments_; }
  const std::optional<QuantileSketch>& sketch() const { return sketch_; }
  const std::optional<FixedBins>& bins() const { return bins_; }

  /// How many elements lie between each two of `edges`, which ascend: from the sketch, which is there.
  std::vector<uint64_t> CountsBetween(std::span<const double> edges) const;

 private:
  uint64_t records_ = 0;
  Moments moments_;
  std::optional<QuantileSketch> sketch_;
  std::optional<FixedBins> bins_;
};

}  // namespace callout::internal
