// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/moments.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace callout::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Squares of numbers in this range neither overflow nor underflow.
constexpr double kSmall = 1e-140;
constexpr double kLarge = 1e140;

// Vectors that this file writes out: compilers must not reorder floating-point sums, and so vectorize none of them.
using Pack = double __attribute__((vector_size(16)));
using Counts = int64_t __attribute__((vector_size(16)));
constexpr size_t kPackSize = 2;
constexpr size_t kVectors = 4;  // Enough independent sums to hide the latency of an addition.
constexpr size_t kBlock = kPackSize * kVectors;

Pack LoadPack(const double* from) {
  Pack pack;
  std::memcpy(&pack, from, sizeof(pack));
  return pack;
}

// The results of one pass over the elements.
struct Look {
  double sum = 0;
  double min = kInfinity;
  double max = -kInfinity;
  double least_magnitude = kInfinity;
  size_t zeros = 0;
  size_t nans = 0;

  void Take(double value) {
    sum += value;
    min = value < min ? value : min;
    max = value > max ? value : max;
    const double magnitude = value == 0 ? kInfinity : std::abs(value);
    least_magnitude = magnitude < least_magnitude ? magnitude : least_magnitude;
    zeros += value == 0 ? 1 : 0;
    nans += value != value ? 1 : 0;
  }
};

struct LookPack {
  Pack sum = {};
  Pack min = Pack{} + kInfinity;
  Pack max = Pack{} - kInfinity;
  Pack least_magnitude = Pack{} + kInfinity;
  Counts zeros = {};
  Counts nans = {};

  void Take(Pack x) {
    sum += x;
    min = x < min ? x : min;
    max = x > max ? x : max;
    const Counts is_zero = x == 0.0;
    const Counts bits = std::bit_cast<Counts>(x) & std::numeric_limits<int64_t>::max();
    const Pack magnitude = std::bit_cast<Pack>(bits | (is_zero & std::bit_cast<int64_t>(kInfinity)));
    least_magnitude = magnitude < least_magnitude ? magnitude : least_magnitude;
    zeros -= is_zero;
    nans -= x != x;
  }
};

Look LookAt(const double* values, size_t count) {
  LookPack all[kVectors];
  const size_t whole = count - count % kBlock;
  for (size_t i = 0; i < whole; i += kBlock) {
    for (size_t v = 0; v < kVectors; ++v) all[v].Take(LoadPack(values + i + kPackSize * v));
  }
  Look look;
  for (const LookPack& pack : all) {
    for (size_t i = 0; i < kPackSize; ++i) {
      look.sum += pack.sum[i];
      look.min = std::min(look.min, pack.min[i]);
      look.max = std::max(look.max, pack.max[i]);
      look.least_magnitude = std::min(look.least_magnitude, pack.least_magnitude[i]);
      look.zeros += static_cast<size_t>(pack.zeros[i]);
      look.nans += static_cast<size_t>(pack.nans[i]);
    }
  }
  for (size_t i = whole; i < count; ++i) look.Take(values[i]);
  return look;
}

struct Distances {
  double sum = 0;
  double squares = 0;
};

// Returns distances from `mean`, which is rounded; the sum of the distances corrects for that.
Distances DistancesFrom(double mean, const double* values, size_t count) {
  Pack squares[kVectors] = {};
  Pack sums[kVectors] = {};
  const size_t whole = count - count % kBlock;
  for (size_t i = 0; i < whole; i += kBlock) {
    for (size_t v = 0; v < kVectors; ++v) {
      const Pack distance = LoadPack(values + i + kPackSize * v) - mean;
      squares[v] += distance * distance;
      sums[v] += distance;
    }
  }
  Distances all;
  for (size_t v = 0; v < kVectors; ++v) {
    for (size_t i = 0; i < kPackSize; ++i) {
      all.squares += squares[v][i];
      all.sum += sums[v][i];
    }
  }
  for (size_t i = whole; i < count; ++i) {
    const double distance = values[i] - mean;
    all.squares += distance * distance;
    all.sum += distance;
  }
  return all;
}

}  // namespace

Part Moments::Add(double* values, size_t count) {
  Look look = LookAt(values, count);
  if (look.nans > 0 || look.max == kInfinity || look.min == -kInfinity) [[unlikely]] {
    size_t finite = 0;
    for (size_t i = 0; i < count; ++i) {
      const double value = values[i];
      positive_infinities_ += value == kInfinity ? 1 : 0;
      negative_infinities_ += value == -kInfinity ? 1 : 0;
      values[finite] = value;
      finite += std::isfinite(value) ? 1 : 0;
    }
    nans_ += look.nans;
    count = finite;
    look = LookAt(values, count);
  }
  const Part part = {values, count, look.zeros, look.min, look.max, look.least_magnitude};
  if (count > 0) AddFinite(part, look.sum);
  return part;
}

void Moments::AddFinite(const Part& part, double sum) {
  zeros_ += part.zeros;
  min_ = std::min(min_, part.min);
  max_ = std::max(max_, part.max);
  const double largest = std::max(-part.min, part.max);
  if (largest == 0 || (largest > kSmall && largest < kLarge)) [[likely]] {
    const double mean = sum / static_cast<double>(part.count);
    const Distances from = DistancesFrom(mean, part.values, part.count);
    const auto count = static_cast<long double>(part.count);
    const long double rest = from.sum;
    return Combine(part.count, count * mean + rest, from.squares - rest * rest / count);
  }
  long double wide_sum = 0, squares = 0;
  for (size_t i = 0; i < part.count; ++i) wide_sum += part.values[i];
  const long double mean = wide_sum / static_cast<long double>(part.count);
  for (size_t i = 0; i < part.count; ++i) squares += (part.values[i] - mean) * (part.values[i] - mean);
  Combine(part.count, wide_sum, squares);
}

void Moments::Combine(uint64_t count, long double sum, long double squares) {
  if (count == 0) return;
  const auto ours = static_cast<long double>(count_);
  const auto theirs = static_cast<long double>(count);
  if (count_ > 0) {
    const long double distance = sum / theirs - sum_ / ours;
    squares_ += distance * distance * (ours * theirs / (ours + theirs));
  }
  squares_ += squares;
  sum_ += sum;
  count_ += count;
}

void Moments::Merge(const Moments& other) {
  Combine(other.count_, other.sum_, other.squares_);
  nans_ += other.nans_;
  positive_infinities_ += other.positive_infinities_;
  negative_infinities_ += other.negative_infinities_;
  zeros_ += other.zeros_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Moments::mean() const {
  return count_ > 0 ? static_cast<double>(sum_ / static_cast<long double>(count_)) : kNan;
}

double Moments::variance() const {
  return count_ > 0 ? static_cast<double>(squares_ / static_cast<long double>(count_)) : kNan;
}

double Moments::standard_deviation() const {
  return count_ > 0 ? static_cast<double>(std::sqrt(squares_ / static_cast<long double>(count_))) : kNan;
}

}  // namespace callout::internal
