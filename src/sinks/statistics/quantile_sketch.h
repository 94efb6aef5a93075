// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of a stream in bounded memory and with a known relative error, for either sign:
//
//   bucket of x = the bits of |x|, shifted right = | exponent | first m bits of the mantissa |
//
// so that there are 2^m buckets from a power of two to the next one, and the middle of a bucket is off by at most
// 2^-(m+1) of the number. This is the log-linear form of DDSketch (Masson, Rim, Lee: DDSketch, VLDB 2019), which needs
// no logarithm. When the numbers spread over more than kMostBuckets, m becomes one less and pairs of buckets one, as in
// UDDSketch (Epicoco, Melle, Cafaro, Pulimeno, Morleo: UDDSketch, 2020). So the error is as small as the spread of the
// data allows, is known at any time, and does not depend on the order of elements and merges. It is none for numbers of
// few digits, such as integers, as long as those are all in the number of a bucket.
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
  static constexpr int64_t kMostBuckets = 4096;  ///< Of each sign; 64 KB for both.

  void Add(const Part& part);
  void Merge(const QuantileSketch& other);

  uint64_t count() const { return count_; }
  /// The elements next to a quantile's rank are off by at most this part of themselves; of 2^-1022 if it is smaller
  /// than that, where doubles have less digits.
  double relative_error() const;

  /// At rank q (count - 1), between the elements of the ranks around it as numpy.quantile does by default. NaN if there
  /// are none. 0 <= q <= 1.
  double Quantile(double q) const;

  /// How many elements are below each of `edges`, which ascend. Exact but for the bucket that an edge lies in, whose
  /// elements are taken to lie evenly.
  std::vector<double> CountsBelow(std::span<const double> edges) const;

 private:
  struct Bucket {
    double low;
    double high;  ///< Not in it.
    uint64_t count;
  };

  /// Every element is the end of its bucket that is nearer to zero.
  bool IsExact() const { return (used_bits_ & ((uint64_t{1} << shift_) - 1)) == 0; }
  void Cover(int64_t low, int64_t high);
  void Coarsen(int shift);
  Bucket BucketAt(size_t ascending) const;
  size_t NumBuckets() const { return counts_.size() + 1; }
  double ValueAtRank(uint64_t rank) const;

  int shift_ = 32;     ///< m = 52 - shift_
  int64_t base_ = 0;   ///< The first bucket of either sign.
  int64_t width_ = 0;  ///< So many are there.
  uint64_t count_ = 0;
  uint64_t zeros_ = 0;
  uint64_t used_bits_ = 0;  ///< Of any element.
  double min_ = 0;
  double max_ = 0;
  std::vector<uint64_t> counts_;  ///< Those of positive numbers, then those of negative ones.
};

}  // namespace callout::internal
