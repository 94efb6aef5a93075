// SPDX-License-Identifier: Apache-2.0
//
// The sink that computes statistics: histograms between given edges, all statistics of one leaf, and the sink itself,
// which can be read at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"
#include "sinks/sink.h"
#include "sinks/statistics/moments.h"
#include "sinks/statistics/quantile_sketch.h"

namespace callout::internal {

class CALLOUT_EXPORT FixedBins {
 public:
  /// `edges` are two or more, and ascend.
  explicit FixedBins(std::vector<double> edges);

  /// Requires finite `values`.
  void Add(const double* values, size_t count);
  /// Requires equal edges.
  void Merge(const FixedBins& other);

  /// Each bin includes its lower edge; the last bin includes its upper edge, too.
  const std::vector<double>& edges() const { return edges_; }
  const std::vector<uint64_t>& counts() const { return counts_; }

 private:
  void AddEven(const double* values, size_t count);
  void AddAny(const double* values, size_t count);

  std::vector<double> edges_;
  std::vector<uint64_t> counts_;
  bool is_even_;
};

// All statistics of one leaf of a tap's value.

struct StatisticsOptions {
  bool quantiles = true;      ///< Keep a QuantileSketch.
  std::vector<double> edges;  ///< The edges of FixedBins. Empty: there are no FixedBins.
};

/// Not thread-safe. A copy is a snapshot.
class CALLOUT_EXPORT LeafStatistics {
 public:
  explicit LeafStatistics(const StatisticsOptions& options);

  /// Adds all elements. InvalidArgument for tokens and unknown types; nothing is added then.
  Status Add(const callout_buffer& buffer);
  /// InvalidArgument if `other` keeps other statistics.
  Status Merge(const LeafStatistics& other);

  uint64_t records() const { return records_; }
  const Moments& moments() const { return moments_; }
  const std::optional<QuantileSketch>& sketch() const { return sketch_; }
  const std::optional<FixedBins>& bins() const { return bins_; }

  /// Returns the number of elements between each two of `edges`, which must ascend. Requires a sketch.
  std::vector<uint64_t> CountsBetween(std::span<const double> edges) const;

 private:
  uint64_t records_ = 0;
  Moments moments_;
  std::optional<QuantileSketch> sketch_;
  std::optional<FixedBins> bins_;
};

// A sink that can be read at any time.

class CALLOUT_EXPORT StatisticsSink final : public Sink {
 public:
  /// The names of the tap and of the leaf; the leaf of a single array is "". Taps of one name, and all devices, are
  /// counted together.
  using Key = std::pair<std::string, std::string>;

  StatisticsSink(std::string label, StatisticsOptions options) : Sink(std::move(label)), options_(std::move(options)) {}
  Status Deliver(const Record& record) override;

  /// Returns the statistics of all whole records. May wait for the record that is being counted, so do not hold the
  /// GIL. Thread-safe.
  std::vector<std::pair<Key, LeafStatistics>> Snapshot() const;
  /// Returns the statistics of one leaf, or nothing if it has received no record. May wait like Snapshot. Thread-safe.
  std::optional<LeafStatistics> Find(const Key& key) const;
  std::vector<Key> Keys() const;
  /// Removes all statistics. Thread-safe.
  void Reset();

 private:
  const StatisticsOptions options_;
  mutable Mutex mutex_;
  std::map<Key, LeafStatistics> leaves_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
