// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of a stream of numbers of either sign, in bounded memory and with a known relative error:
//
//   bucket of x = the bits of |x|, shifted right = | exponent | first m bits of the mantissa |
//
// A power of two spans 2^m buckets, and the middle of a bucket is off by at most 2^-(m+1) of the number. This is the
// log-linear form of DDSketch (Masson, Rim, Lee: DDSketch, VLDB 2019), which needs no logarithm. When the numbers
// spread over more than kMostBuckets, m decreases by one, which merges pairs of buckets, as in UDDSketch (Epicoco,
// Melle, Cafaro, Pulimeno, Morleo: UDDSketch, 2020). So the error is as small as the spread of the data allows, is
// known at any time, and does not depend on the order of elements and merges. The error is zero for numbers of few
// digits, such as integers, as long as a bucket's number holds all of their digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "callout/export.h"
#include "sinks/statistics/moments.h"

namespace callout::internal {

class CALLOUT_EXPORT QuantileSketch {
 public:
  static constexpr int64_t kMostBuckets = 4096;  ///< For each sign; 64 KB for both.

  void Add(const Part& part);
  void Merge(const QuantileSketch& other);

  uint64_t count() const { return count_; }
  /// Bounds the relative error of the elements next to a quantile's rank. For elements smaller than 2^-1022, where
  /// doubles have fewer digits, the error is relative to 2^-1022.
  double relative_error() const;

  /// Returns the quantile at rank q (count - 1), interpolated between the neighbouring ranks as numpy.quantile does by
  /// default. NaN if there are no elements. Requires 0 <= q <= 1.
  double Quantile(double q) const;

  /// Returns the number of elements below each of `edges`, which must ascend. Exact except in the bucket that contains
  /// an edge, whose elements are assumed to lie evenly.
  std::vector<double> CountsBelow(std::span<const double> edges) const;

 private:
  struct Bucket {
    double low;
    double high;  ///< Exclusive.
    uint64_t count;
  };

  /// Returns whether every element equals the end of its bucket that is nearer to zero.
  bool IsExact() const { return (used_bits_ & ((uint64_t{1} << shift_) - 1)) == 0; }
  void Cover(int64_t low, int64_t high);
  void Coarsen(int shift);
  Bucket BucketAt(size_t ascending) const;
  size_t NumBuckets() const { return counts_.size() + 1; }
  double ValueAtRank(uint64_t rank) const;

  int shift_ = 32;     ///< m = 52 - shift_
  int64_t base_ = 0;   ///< The number of the first bucket of either sign.
  int64_t width_ = 0;  ///< The number of buckets of either sign.
  uint64_t count_ = 0;
  uint64_t zeros_ = 0;
  uint64_t used_bits_ = 0;  ///< Bits that any element has set.
  double min_ = 0;
  double max_ = 0;
  std::vector<uint64_t> counts_;  ///< Buckets of positive numbers, then of negative numbers.
};

}  // namespace callout::internal
