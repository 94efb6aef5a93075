// SPDX-License-Identifier: Apache-2.0
//
// Runs a compiled program, on one or more threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "callout/pjrt/executable.h"
#include "times.h"

namespace callout::tools {

/// The arguments or the results of each device.
using Buffers = std::vector<std::vector<pjrt::Buffer>>;

struct Load {
  int64_t runs = 1;        ///< The total number of runs; each thread does at least one.
  double min_seconds = 0;  ///< Further runs are started until this time has passed.
  int threads = 1;
};

/// Not thread-safe, except for done().
class Workload {
 public:
  /// Borrowed: `executable` and `arguments` must outlive this object.
  Workload(const pjrt::LoadedExecutable& executable, const Buffers& arguments);

  /// Blocks until all runs have ended. Returns the first error, after which no run is started.
  Status Run(const Load& load);

  /// The number of runs that have ended since the last call of Run. Thread-safe.
  int64_t done() const { return done_.load(); }
  /// The outputs of each thread's last run in the last call of Run.
  const std::vector<Buffers>& outputs() const { return outputs_; }
  Times ReadTimes() const;

 private:
  struct Span {
    int64_t begin;
    int64_t end;
  };

  void RunThread(const Load& load, int64_t begin, size_t thread);
  Status RunOnce(Buffers& outputs, std::vector<Span>& spans) const;

  const pjrt::LoadedExecutable& executable_;
  std::vector<std::vector<const pjrt::Buffer*>> arguments_;
  std::atomic<int64_t> started_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status error_;             // The first error.
  std::vector<Span> spans_;  // The runs of all threads.
  std::vector<Buffers> outputs_;
};

}  // namespace callout::tools
