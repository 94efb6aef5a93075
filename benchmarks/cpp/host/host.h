// SPDX-License-Identifier: Apache-2.0
//
// Declarations that the benchmarks of the host share. All of them end the process on errors.
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

/// `client` has two devices. `bare` is the same client, used through the C API.
struct Host {
  std::shared_ptr<const pjrt::Client> client;
  BarePjrt bare;
};
Host OpenHost(const std::string& plugin);

/// Creates an array of `elements` times 1; a scalar if `elements` is 1.
pjrt::Buffer Ones(const std::shared_ptr<const pjrt::Client>& client, int64_t elements, size_t device = 0);

/// Calls `run` `iterations` times in each repetition. The row gets the median of their times, divided by `parts`: on a
/// machine with other work some runs are interrupted. `after` follows each run and is not timed.
template <typename Run, typename After>
void RegisterTimed(const std::string& name, Row& row, int64_t iterations, double parts, Run run, After after) {
  const auto measure = [&row, parts, run, after](benchmark::State& state) {
    using Clock = std::chrono::steady_clock;
    run();  // refills the caches after the previous contender
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

/// Measures a callback in a loop against a handler that XLA calls directly.
void RegisterLoops(const Host& host, std::deque<Table>& tables);
/// Measures executing a small program and waiting for its result, against the C API.
void RegisterExecutions(const Host& host, std::deque<Table>& tables);
/// Measures requests with and without callbacks from several threads, and programs from the cache, against the C API.
void RegisterRequests(const Host& host, std::deque<Table>& tables);
/// Measures the time from the start of a process to its first result, against the C API.
void RegisterStartups(std::deque<Table>& tables);
/// Runs the child process that RegisterStartups starts; `contender` is "callout" or "bare".
int RunStartup(const std::string& contender, const std::string& plugin);

}  // namespace callout::bench
