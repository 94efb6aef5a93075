// SPDX-License-Identifier: Apache-2.0
//
// Count, sum, variance and extremes of a stream of numbers.
//
// A part of an array is summed twice while it lies in the first-level cache, the second time around its own mean. The
// results of parts are combined by the pairwise formulas of Chan, Golub and LeVeque (Updating formulae and a pairwise
// algorithm for computing sample variances, 1979). Totals have 64 bits of mantissa and 15 of exponent, so that neither
// 1e300 nor a subnormal number spoils them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "callout/export.h"

namespace callout::internal {

/// A part of an array: its finite elements, and properties of them. Borrowed: valid as long as the array that `values`
/// points into.
struct Part {
  const double* values;
  size_t count;
  size_t zeros;
  double min;
  double max;
  double least_magnitude;  ///< The least magnitude of nonzero elements; infinity if there are none.
};

class CALLOUT_EXPORT Moments {
 public:
  /// Counts `values`, and moves the finite ones to the front. Returns the finite ones.
  Part Add(double* values, size_t count);
  void Merge(const Moments& other);

  /// The number of finite elements. All statistics but the next three describe these only. Without finite elements, the
  /// sum is 0, and the mean, the variance and the extremes are NaN.
  uint64_t count() const { return count_; }
  uint64_t nans() const { return nans_; }
  uint64_t positive_infinities() const { return positive_infinities_; }
  uint64_t negative_infinities() const { return negative_infinities_; }
  uint64_t zeros() const { return zeros_; }
  double sum() const { return static_cast<double>(sum_); }
  double mean() const;
  /// The population variance: the squared distances are divided by the number of elements.
  double variance() const;
  double standard_deviation() const;
  double min() const { return count_ > 0 ? min_ : std::numeric_limits<double>::quiet_NaN(); }
  double max() const { return count_ > 0 ? max_ : std::numeric_limits<double>::quiet_NaN(); }

 private:
  void AddFinite(const Part& part, double sum);
  void Combine(uint64_t count, long double sum, long double squares);

  uint64_t count_ = 0;
  uint64_t nans_ = 0;
  uint64_t positive_infinities_ = 0;
  uint64_t negative_infinities_ = 0;
  uint64_t zeros_ = 0;
  long double sum_ = 0;
  long double squares_ = 0;  ///< The sum of squared distances from the mean.
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

}  // namespace callout::internal
