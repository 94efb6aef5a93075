// SPDX-License-Identifier: Apache-2.0
//
// XLA:CPU runs one program at a time on a device, unless the program is small and runs on the calling thread. A
// callback that blocks would therefore stop everything else on its device. Programs with calls run on runners instead:
// devices of other clients of the same plugin, each with a thread of its own, which hosts do not see. A run takes an
// idle runner, and borrows its arguments without a copy.
//
// XLA:CPU divides a program's work among as many threads as its client has devices or the machine has processors,
// whichever is more. On two processors, a program whose work is divided among 32 threads takes twice as long. So the
// first client has one runner for each processor, and a second client has the runners that are needed only while
// callbacks block.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "callout/pjrt/buffer.h"
#include "callout/pjrt/client.h"

namespace callout::internal {

/// Thread-safe.
class Runners {
 public:
  struct Runner {
    PJRT_Device* device;
    size_t client;  // the index of its client
    std::atomic<int> runs{0};
  };

  /// Occupies a runner until a run is done. Movable.
  class Run {
   public:
    Run() = default;
    explicit Run(Runner& runner) : runner_(&runner) {}
    Run(Run&& other) noexcept : runner_(std::exchange(other.runner_, nullptr)) {}
    Run& operator=(Run&& other) noexcept {
      std::swap(runner_, other.runner_);
      return *this;
    }
    ~Run() {
      // Relaxed, with no partner: the count is only a hint of how busy the runner is.
      if (runner_ != nullptr) runner_->runs.fetch_sub(1, std::memory_order_relaxed);
    }
    explicit operator bool() const { return runner_ != nullptr; }
    PJRT_Device* device() const { return runner_->device; }
    size_t client() const { return runner_->client; }

   private:
    Runner* runner_ = nullptr;
  };

  /// Takes ownership of at least one client. Their devices become runners, and the first client's are preferred.
  explicit Runners(std::vector<std::unique_ptr<const pjrt::Client>> clients);

  /// Borrowed: valid as long as the runners.
  const std::vector<std::unique_ptr<const pjrt::Client>>& clients() const { return clients_; }
  /// Takes the least busy runner. If several are idle, prefers the runner whose device holds the first of `arguments`,
  /// and after that the runners of the first client. Borrowed: the runners outlive the run.
  Run Take(std::span<const pjrt::Buffer* const> arguments);

 private:
  Runner* TakeIdle(std::span<Runner> runners);

  std::vector<Runner> runners_;  // client by client; declared before clients_, whose destructors wait for their runs
  std::atomic<size_t> next_{0};  // the start of the next search
  const std::vector<std::unique_ptr<const pjrt::Client>> clients_;
};

}  // namespace callout::internal
