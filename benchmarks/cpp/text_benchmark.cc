// SPDX-License-Identifier: Apache-2.0
//
// Compares sinks of text with std::to_chars alone, on the same records of 1 KB.
#include <benchmark/benchmark.h>

#include <array>
#include <charconv>
#include <cmath>

#include "callout/dtype.h"
#include "core/base/ticks.h"
#include "sinks/catalog/callback_kinds.h"

namespace callout::internal {
namespace {

constexpr int kBatch = 256;
constexpr size_t kLeaves = 4, kElements = 64;  // the largest arrays that Csv takes

using Values = std::array<float, kLeaves * kElements>;

Values MakeValues() {
  Values values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  return values;
}

void DigitsAlone(benchmark::State& state) {
  const Values values = MakeValues();
  std::array<char, 16 * values.size()> line;
  for (auto _ : state) {
    char* end = line.data();
    for (const float value : values) {
      end = std::to_chars(end, line.data() + line.size(), value).ptr;
      *end++ = ',';
    }
    benchmark::DoNotOptimize(line);
  }
  state.SetItemsProcessed(state.iterations());
}

// Delivers to a sink that writes to /dev/null: sink_benchmark measures files.
void Deliver(benchmark::State& state, const char* description) {
  const auto sink = MakeSink("text", description);
  if (!sink.ok()) return state.SkipWithError(sink.status().c_message());
  Values values = MakeValues();
  const SiteInfo site = {.label = "train", .leaf_names = {"a", "b", "c", "d"}, .id = 1};
  auto extent = static_cast<int64_t>(kElements);
  std::array<callout_buffer, kLeaves> buffers = {};
  std::array<void*, kLeaves> blocks = {};
  for (size_t i = 0; i < kLeaves; ++i) {
    buffers[i] = {.dtype = static_cast<uint32_t>(DType::kFloat32),
                  .rank = 1,
                  .data = values.data() + i * kElements,
                  .dims = &extent,
                  .size_bytes = kElements * sizeof(float)};
  }
  Record record = {};
  record.site = &site;
  record.buffers = buffers;
  record.blocks = blocks.data();
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) {
      record.ticks = Ticks();
      ++record.sequence;
      benchmark::DoNotOptimize((*sink)->Deliver(record));
    }
    benchmark::DoNotOptimize((*sink)->Flush());
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

BENCHMARK(DigitsAlone);
BENCHMARK_CAPTURE(Deliver, JsonLines, "jsonl:/dev/null");
BENCHMARK_CAPTURE(Deliver, Csv, "csv:/dev/null");

}  // namespace
}  // namespace callout::internal
