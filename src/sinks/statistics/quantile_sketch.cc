// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/quantile_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace callout::internal {
namespace {

constexpr int kMantissaBits = 52;
constexpr uint64_t kMagnitude = ~uint64_t{0} >> 1;
constexpr int64_t kSlack = 64;  // Additional buckets that are allocated in advance.

int64_t BucketOf(double magnitude, int shift) {
  return static_cast<int64_t>(std::bit_cast<uint64_t>(magnitude) >> shift);
}

double LowerBound(int64_t bucket, int shift) {
  const double bound = std::bit_cast<double>(static_cast<uint64_t>(bucket) << shift);
  return std::isfinite(bound) ? bound : std::numeric_limits<double>::max();
}

}  // namespace

double QuantileSketch::relative_error() const { return IsExact() ? 0 : std::ldexp(1.0, shift_ - kMantissaBits - 1); }

void QuantileSketch::Add(const Part& part) {
  if (part.count == 0) return;
  min_ = count_ == 0 ? part.min : std::min(min_, part.min);
  max_ = count_ == 0 ? part.max : std::max(max_, part.max);
  count_ += part.count;
  zeros_ += part.zeros;
  if (part.zeros == part.count) return;
  const double largest = std::max(-part.min, part.max);
  Cover(BucketOf(part.least_magnitude, shift_), BucketOf(largest, shift_));
  // Has no branches: signs and zeros of real data are unpredictable.
  uint64_t* const counts = counts_.data();
  uint64_t used = 0;
  const int shift = shift_;
  const auto base = static_cast<uint64_t>(base_), width = static_cast<uint64_t>(width_);
  const auto place = [=](uint64_t bits) {
    return ((bits & kMagnitude) >> shift) - base + (width & (0 - (bits >> 63)));
  };
  if (part.zeros == 0) {
    for (size_t i = 0; i < part.count; ++i) {
      const uint64_t bits = std::bit_cast<uint64_t>(part.values[i]);
      used |= bits;
      ++counts[place(bits)];
    }
    used_bits_ |= used;
    return;
  }
  for (size_t i = 0; i < part.count; ++i) {
    const uint64_t bits = std::bit_cast<uint64_t>(part.values[i]);
    used |= bits;
    const uint64_t is_number = (bits & kMagnitude) != 0 ? 1 : 0;
    counts[place(bits) & (0 - is_number)] += is_number;  // A zero adds 0 to the first bucket.
  }
  used_bits_ |= used;
}

// Makes room for the buckets from `low` to `high`, numbered by the shift at the time of the call.
void QuantileSketch::Cover(int64_t low, int64_t high) {
  if (width_ > 0) {
    if (low >= base_ && high < base_ + width_) [[likely]]
      return;
    low = std::min(low, base_);
    high = std::max(high, base_ + width_ - 1);
  }
  int coarser = 0;
  while ((high >> coarser) - (low >> coarser) >= kMostBuckets) ++coarser;
  Coarsen(shift_ + coarser);
  low >>= coarser;
  high >>= coarser;
  const int64_t slack = std::min(kSlack, (kMostBuckets - (high - low + 1)) / 2);
  low = std::max<int64_t>(low - slack, 0);
  const int64_t width = high + slack - low + 1;
  std::vector<uint64_t> counts(static_cast<size_t>(2 * width));
  for (int64_t i = 0; i < width_; ++i) {
    counts[static_cast<size_t>(base_ + i - low)] = counts_[static_cast<size_t>(i)];
    counts[static_cast<size_t>(width + base_ + i - low)] = counts_[static_cast<size_t>(width_ + i)];
  }
  counts_ = std::move(counts);
  base_ = low;
  width_ = width;
}

void QuantileSketch::Coarsen(int shift) {
  const int by = shift - shift_;
  if (by <= 0) return;
  shift_ = shift;
  if (width_ == 0) return;
  const int64_t base = base_ >> by;
  const int64_t width = ((base_ + width_ - 1) >> by) - base + 1;
  std::vector<uint64_t> counts(static_cast<size_t>(2 * width));
  for (int64_t i = 0; i < width_; ++i) {
    const int64_t to = ((base_ + i) >> by) - base;
    counts[static_cast<size_t>(to)] += counts_[static_cast<size_t>(i)];
    counts[static_cast<size_t>(width + to)] += counts_[static_cast<size_t>(width_ + i)];
  }
  counts_ = std::move(counts);
  base_ = base;
  width_ = width;
}

void QuantileSketch::Merge(const QuantileSketch& other) {
  if (other.count_ == 0) return;
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = count_ == 0 ? other.max_ : std::max(max_, other.max_);
  count_ += other.count_;
  zeros_ += other.zeros_;
  used_bits_ |= other.used_bits_;
  if (other.width_ == 0) return;
  QuantileSketch theirs = other;
  theirs.Coarsen(shift_);
  Coarsen(theirs.shift_);
  Cover(theirs.base_, theirs.base_ + theirs.width_ - 1);
  theirs.Coarsen(shift_);
  for (int64_t i = 0; i < theirs.width_; ++i) {
    const int64_t to = theirs.base_ + i - base_;
    counts_[static_cast<size_t>(to)] += theirs.counts_[static_cast<size_t>(i)];
    counts_[static_cast<size_t>(width_ + to)] += theirs.counts_[static_cast<size_t>(theirs.width_ + i)];
  }
}

// Orders the buckets by their numbers: negative buckets from the largest magnitude on, zero, positive buckets.
QuantileSketch::Bucket QuantileSketch::BucketAt(size_t ascending) const {
  const auto width = static_cast<size_t>(width_);
  if (ascending == width) return {0, 0, zeros_};
  const bool negative = ascending < width;
  const size_t i = negative ? width - 1 - ascending : ascending - width - 1;
  const auto bucket = base_ + static_cast<int64_t>(i);
  double low = LowerBound(bucket, shift_), high = LowerBound(bucket + 1, shift_);
  if (negative) low = -std::exchange(high, -low);
  return {std::clamp(low, min_, max_), std::clamp(high, min_, max_), counts_[negative ? width + i : i]};
}

double QuantileSketch::ValueAtRank(uint64_t rank) const {
  if (rank == 0) return min_;
  if (rank + 1 >= count_) return max_;
  uint64_t seen = 0;
  for (size_t i = 0; i < NumBuckets(); ++i) {
    const Bucket bucket = BucketAt(i);
    seen += bucket.count;
    if (seen <= rank) continue;
    if (IsExact()) return i < static_cast<size_t>(width_) ? bucket.high : bucket.low;
    return bucket.low + (bucket.high - bucket.low) / 2;
  }
  return max_;
}

double QuantileSketch::Quantile(double q) const {
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  const double rank = q * static_cast<double>(count_ - 1);
  const double below = std::floor(rank);
  const double low = ValueAtRank(static_cast<uint64_t>(below));
  if (below == rank) return low;
  return std::lerp(low, ValueAtRank(static_cast<uint64_t>(below) + 1), rank - below);
}

std::vector<double> QuantileSketch::CountsBelow(std::span<const double> edges) const {
  std::vector<double> counts;
  counts.reserve(edges.size());
  double below = 0;  // The number of elements in the buckets before the i-th.
  size_t i = 0;
  for (const double edge : edges) {
    // A bucket of negative numbers includes its upper end. So does the bucket of the largest element.
    const auto reaches = [&](const Bucket& bucket) {
      const bool is_closed = i <= static_cast<size_t>(width_) || bucket.high == max_;
      return is_closed ? bucket.high >= edge : bucket.high > edge;
    };
    for (; i < NumBuckets() && !reaches(BucketAt(i)); ++i) below += static_cast<double>(BucketAt(i).count);
    double inside = 0;
    if (i < NumBuckets()) {
      const Bucket bucket = BucketAt(i);
      const bool is_negative = i < static_cast<size_t>(width_);
      double part = 0;
      if (IsExact()) {
        part = (is_negative ? bucket.high : bucket.low) < edge ? 1 : 0;
      } else if (bucket.high > bucket.low) {
        part = std::clamp((edge - bucket.low) / (bucket.high - bucket.low), 0.0, 1.0);
      }
      inside = part * static_cast<double>(bucket.count);
    }
    counts.push_back(std::max(counts.empty() ? 0 : counts.back(), below + inside));
  }
  return counts;
}

}  // namespace callout::internal
