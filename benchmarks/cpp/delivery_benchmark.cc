// SPDX-License-Identifier: Apache-2.0
//
// Measures a tap without XLA: one or two threads call Delivery::Push as the tap handler does, with a null sink.
#include <benchmark/benchmark.h>

#include <chrono>
#include <vector>

#include "callout/dtype.h"
#include "core/delivery/delivery.h"
#include "sinks/each_sink_kind.h"

namespace callout::internal {
namespace {

TapSite* MakeSite(int64_t every) {
  TapAttributes attributes;
  attributes.label = "bench";
  attributes.every = every;
  return new TapSite(MakeSink("null", NullKind(), {}).value(), attributes);
}

void Push(benchmark::State& state, int64_t every) {
  static Delivery* const delivery = new Delivery;  // leaked: its threads sleep between benchmarks
  static TapSite* site = nullptr;
  if (state.thread_index() == 0) site = MakeSite(every);
  std::vector<float> data(static_cast<size_t>(state.range(0)), 1.0F);
  const int64_t dims[] = {state.range(0)};
  const callout_buffer buffer = {static_cast<uint32_t>(DType::kFloat32), state.range(0) > 1 ? 1U : 0U, data.data(),
                                 dims, data.size() * sizeof(float)};
  for (auto _ : state) {
    if (!delivery->Push(*site, {.buffers = {&buffer, 1}, .device_ordinal = 0, .run_id = 1}).ok())
      state.SkipWithError("push failed");
  }
  if (state.thread_index() == 0) {
    const auto left = delivery->Drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    if (!left.empty()) state.SkipWithError("not everything was delivered");
    delivery->Retire(std::unique_ptr<TapSite>(site));
  }
  state.SetItemsProcessed(state.iterations());
}

void PushAll(benchmark::State& state) { Push(state, 1); }
void PushOneInAThousand(benchmark::State& state) { Push(state, 1000); }

BENCHMARK(PushAll)->Arg(1)->Arg(256)->Arg(1 << 18)->UseRealTime();
BENCHMARK(PushAll)->Arg(1)->Arg(256)->Threads(2)->UseRealTime();
BENCHMARK(PushOneInAThousand)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace callout::internal
