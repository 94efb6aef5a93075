// SPDX-License-Identifier: Apache-2.0
//
// A histogram between given edges, as numpy.histogram counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "callout/export.h"

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

}  // namespace callout::internal
