// SPDX-License-Identifier: Apache-2.0
//
// XLA:CPU runs one program at a time on a device, the next one when the last is done, unless it is small and runs on
// the thread that asks for it. A callback that blocks would stop all that the device has to do. Programs with calls run
// on runners instead: devices of a second client of the same plugin, each with a thread of its own, which nobody sees.
// A run takes a runner that is idle, and its arguments without a copy.
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
    std::atomic<int> runs{0};
  };

  /// A run on a runner, until it is done. Movable.
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
      // Only a hint of how busy the runner is: nothing is read because of it.
      if (runner_ != nullptr) runner_->runs.fetch_sub(1, std::memory_order_relaxed);
    }
    explicit operator bool() const { return runner_ != nullptr; }
    PJRT_Device* device() const { return runner_->device; }

   private:
    Runner* runner_ = nullptr;
  };

  /// Takes ownership of a client. Its devices become runners.
  explicit Runners(std::unique_ptr<const pjrt::Client> client);

  const pjrt::Client& client() const { return *client_; }
  /// The least busy runner; of idle ones that on which the first of `arguments` is, if it is on one. Borrowed: the
  /// runners outlive the run.
  Run Take(std::span<const pjrt::Buffer* const> arguments);

 private:
  std::vector<Runner> runners_;  // older than the client, whose end waits for their runs
  std::atomic<size_t> next_{0};  // where the search begins
  const std::unique_ptr<const pjrt::Client> client_;
};

}  // namespace callout::internal
