// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/fixed_bins.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace callout::internal {
namespace {

// Equal widths, but for rounding: the place of an element can be computed.
bool AreEven(const std::vector<double>& edges) {
  constexpr double kTolerance = 1e-6;  // of a width; an element is then in the computed bin or in one beside it
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

}  // namespace callout::internal
