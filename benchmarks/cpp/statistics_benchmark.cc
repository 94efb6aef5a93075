// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of statistics per element: moments alone, with quantiles, with given bins.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "callout/dtype.h"
#include "sinks/statistics/statistics_sink.h"

namespace callout::internal {
namespace {

enum class Data { kNormal, kOneValue, kSparse };

template <typename T>
std::vector<T> Make(Data data, size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 1e-2);
  std::vector<T> values(count, T{1});
  for (T& value : values) {
    if (data == Data::kNormal || (data == Data::kSparse && random() % 2 == 0)) value = static_cast<T>(normal(random));
    if (data == Data::kSparse && random() % 2 == 0) value = 0;
  }
  return values;
}

template <typename T>
void Count(benchmark::State& state, const StatisticsOptions& options, Data data) {
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<T> values = Make<T>(data, count);
  const auto extent = static_cast<int64_t>(count);
  const callout_buffer buffer = {static_cast<uint32_t>(DTypeOf<T>::value), 1, values.data(), &extent,
                                 count * sizeof(T)};
  LeafStatistics statistics(options);
  for (auto _ : state) {
    if (!statistics.Add(buffer).ok()) return state.SkipWithError("Add() refused the values");
  }
  benchmark::DoNotOptimize(statistics.moments().sum());
  state.SetItemsProcessed(state.iterations() * extent);
}

std::vector<double> Edges() {
  std::vector<double> edges;
  for (int i = 0; i <= 64; ++i) edges.push_back(-0.04 + 0.08 / 64 * i);
  return edges;
}

const StatisticsOptions kMoments = {.quantiles = false, .edges = {}};
const StatisticsOptions kQuantiles = {.quantiles = true, .edges = {}};
const StatisticsOptions kBins = {.quantiles = false, .edges = Edges()};

constexpr auto* Float32 = &Count<float>;
constexpr auto* Float64 = &Count<double>;

BENCHMARK_CAPTURE(Float32, moments_normal, kMoments, Data::kNormal)->Arg(1)->Arg(1000)->Arg(1'000'000);
BENCHMARK_CAPTURE(Float64, moments_normal, kMoments, Data::kNormal)->Arg(1'000'000);
BENCHMARK_CAPTURE(Float32, quantiles_normal, kQuantiles, Data::kNormal)->Arg(1)->Arg(1000)->Arg(1'000'000);
BENCHMARK_CAPTURE(Float32, quantiles_one_value, kQuantiles, Data::kOneValue)->Arg(1'000'000);
BENCHMARK_CAPTURE(Float32, quantiles_sparse, kQuantiles, Data::kSparse)->Arg(1'000'000);
BENCHMARK_CAPTURE(Float32, bins_normal, kBins, Data::kNormal)->Arg(1'000'000);

}  // namespace
}  // namespace callout::internal
