// SPDX-License-Identifier: Apache-2.0
//
// XLA:CPU runs one program at a time on a device, the next one when the last is done, unless it is small and runs on
// the thread that asks for it. A callback that blocks would stop all that the device has to do. Programs with calls run
// on runners instead: devices of other clients of the same plugin, each with a thread of its own, which nobody sees.
// A run takes a runner that is idle, and its arguments without a copy.
//
// XLA:CPU divides the work of a program among as many threads as its client has devices, or the machine processors. On
// two processors a program whose work is divided among 32 threads takes twice as long. So a first client has a runner
// for each processor, and a second one those that are needed only while callbacks block.
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
    size_t client;  // its number
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
    size_t client() const { return runner_->client; }

   private:
    Runner* runner_ = nullptr;
  };

  /// Takes ownership of clients, one at least. Their devices become runners, of which the first client's are preferred.
  explicit Runners(std::vector<std::unique_ptr<const pjrt::Client>> clients);

  /// Borrowed: they live as long as the runners.
  const std::vector<std::unique_ptr<const pjrt::Client>>& clients() const { return clients_; }
  /// The least busy runner; of idle ones that on which the first of `arguments` is, if it is on one of the first
  /// client's. Borrowed: the runners outlive the run.
  Run Take(std::span<const pjrt::Buffer* const> arguments);

 private:
  Runner* TakeIdle(std::span<Runner> runners);

  std::vector<Runner> runners_;  // client by client; older than these, whose ends wait for their runs
  std::atomic<size_t> next_{0};  // where the search begins
  const std::vector<std::unique_ptr<const pjrt::Client>> clients_;
};

}  // namespace callout::internal
