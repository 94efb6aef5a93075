// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of the host share. All of it ends the process on errors.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "callout/pjrt/executable.h"
#include "host/bare_pjrt.h"
#include "host/table.h"

namespace callout::bench {

inline void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.c_message());
  std::exit(1);
}
template <typename T>
T Value(Result<T> result) {
  Check(result.status());
  return std::move(result).value();
}

/// `client`: of two devices. `bare`: the same client through the C API.
struct Host {
  std::shared_ptr<const pjrt::Client> client;
  BarePjrt bare;
};
Host OpenHost(const std::string& plugin);

/// An array of `elements` times 1; a scalar if it has one element.
pjrt::Buffer Ones(const std::shared_ptr<const pjrt::Client>& client, int64_t elements, size_t device = 0);

/// Calls `run` `iterations` times a repetition; the row gets the median of their times, divided by `parts`: on a
/// machine with other work some of them are interrupted. `after` follows each run and is not timed.
template <typename Run, typename After>
void RegisterTimed(const std::string& name, Row& row, int64_t iterations, double parts, Run run, After after) {
  const auto measure = [&row, parts, run, after](benchmark::State& state) {
    using Clock = std::chrono::steady_clock;
    run();  // warms the caches that the contender before has used
    after();
    std::vector<double> times;
    for (auto _ : state) {
      const auto begin = Clock::now();
      run();
      const std::chrono::duration<double> taken = Clock::now() - begin;
      after();
      state.SetIterationTime(taken.count());
      times.push_back(taken.count() / parts);
    }
    row.samples.push_back(Quantile(times, 0.5));
    state.counters["part"] = benchmark::Counter(row.samples.back());
  };
  benchmark::RegisterBenchmark(name.c_str(), measure)
      ->Iterations(iterations)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

/// A callback in a loop, beside a handler of XLA's own kind.
void RegisterLoops(const Host& host, std::deque<Table>& tables);
/// Executing a small program and waiting for it, beside the C API.
void RegisterExecutions(const Host& host, std::deque<Table>& tables);
/// Requests with callbacks and without, from several threads beside the C API, and programs from the cache.
void RegisterRequests(const Host& host, std::deque<Table>& tables);
/// From the start of a process to its first result, beside the C API.
void RegisterStartups(std::deque<Table>& tables);
/// What a process does that RegisterStartups starts; `contender` is "callout" or "bare".
int RunStartup(const std::string& contender, const std::string& plugin);

}  // namespace callout::bench
