// SPDX-License-Identifier: Apache-2.0
//
// Count, sum, variance and extremes of a stream of numbers.
//
// A part of an array is summed twice while it lies in the first-level cache, the second time about its own mean; parts
// are put together by the pairwise formulas of Chan, Golub and LeVeque (Updating formulae and a pairwise algorithm for
// computing sample variances, 1979). Totals are kept with 64 bits of mantissa and 15 of exponent, so that neither 1e300
// nor a subnormal number spoils them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "callout/export.h"

namespace callout::internal {

/// A part of an array: its finite elements and what was there besides. Borrowed: `values` is whoever's made it.
struct Part {
  const double* values;
  size_t count;
  size_t zeros;
  double min;
  double max;
  double least_magnitude;  ///< Of those that are not zero; infinity if there are none.
};

class CALLOUT_EXPORT Moments {
 public:
  /// Counts `values`, and moves the finite ones among them to the front.
  Part Add(double* values, size_t count);
  void Merge(const Moments& other);

  /// The number of finite elements, of which everything but the next three is. All are 0 where there are none, and NaN
  /// where that makes no sense.
  uint64_t count() const { return count_; }
  uint64_t nans() const { return nans_; }
  uint64_t positive_infinities() const { return positive_infinities_; }
  uint64_t negative_infinities() const { return negative_infinities_; }
  uint64_t zeros() const { return zeros_; }
  double sum() const { return static_cast<double>(sum_); }
  double mean() const;
  /// The variance of the elements themselves, not an estimate from a sample: divided by their number.
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
  long double squares_ = 0;  ///< Of the distances to the mean.
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

}  // namespace callout::internal
