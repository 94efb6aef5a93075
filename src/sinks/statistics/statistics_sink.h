// SPDX-License-Identifier: Apache-2.0
//
// A sink that counts: histograms between given edges, all counts of one leaf, and the sink, which answers at any
// time.
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
  /// `edges`: two or more, ascending.
  explicit FixedBins(std::vector<double> edges);

  /// `values` are finite.
  void Add(const double* values, size_t count);
  /// `other` has the same edges.
  void Merge(const FixedBins& other);

  /// A bin has its lower edge in it, the last one its upper edge too.
  const std::vector<double>& edges() const { return edges_; }
  const std::vector<uint64_t>& counts() const { return counts_; }

 private:
  void AddEven(const double* values, size_t count);
  void AddAny(const double* values, size_t count);

  std::vector<double> edges_;
  std::vector<uint64_t> counts_;
  bool is_even_;
};

// All that is counted of one leaf of a tap's value.

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

// A sink that counts, and is asked at any time.

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
