// SPDX-License-Identifier: Apache-2.0
//
// Runs of a compiled program, from one thread or more.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "callout/pjrt/executable.h"
#include "times.h"

namespace callout::tools {

/// What each device gets, or returns.
using Buffers = std::vector<std::vector<pjrt::Buffer>>;

struct Load {
  int64_t runs = 1;        ///< In all; each thread does one at least.
  double min_seconds = 0;  ///< There are more runs until it is over.
  int threads = 1;
};

/// Not thread-safe, but for done().
class Workload {
 public:
  /// `executable` and `arguments` outlive this.
  Workload(const pjrt::LoadedExecutable& executable, const Buffers& arguments);

  /// Blocks until all is done. The first error, after which nothing new is started.
  Status Run(const Load& load);

  /// Runs that ended since Run was called last. Thread-safe.
  int64_t done() const { return done_.load(); }
  /// The outputs of each thread's last run in Run's last call.
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
  Status error_;             // the first
  std::vector<Span> spans_;  // of all threads
  std::vector<Buffers> outputs_;
};

}  // namespace callout::tools
