// SPDX-License-Identifier: Apache-2.0
#include "pjrt/runners.h"

#include <algorithm>

#include "pjrt/topology.h"

namespace callout::internal {

Runners::Runners(std::unique_ptr<const pjrt::Client> client)
    : runners_(client->devices().size()), client_(std::move(client)) {
  for (size_t i = 0; i < runners_.size(); ++i) runners_[i].device = client_->devices()[i].handle;
}

Runners::Run Runners::Take(std::span<const pjrt::Buffer* const> arguments) {
  // What other threads do meanwhile makes the choice a worse one, not a wrong one.
  const auto try_take = [](Runner& runner) {
    int idle = 0;
    return runner.runs.compare_exchange_strong(idle, 1, std::memory_order_relaxed);
  };
  if (!arguments.empty() && arguments[0]->client().get() == client_.get()) {
    if (const auto device = DeviceOf(client_->plugin().api(), *arguments[0]); device.ok()) {
      const auto runner =
          std::find_if(runners_.begin(), runners_.end(), [&](Runner& one) { return one.device == *device; });
      if (runner != runners_.end() && try_take(*runner)) return Run(*runner);
    }
  }
  const size_t begin = next_.fetch_add(1, std::memory_order_relaxed);
  Runner* least = &runners_[begin % runners_.size()];
  for (size_t i = 0; i < runners_.size(); ++i) {
    Runner& runner = runners_[(begin + i) % runners_.size()];
    if (try_take(runner)) return Run(runner);
    if (runner.runs.load(std::memory_order_relaxed) < least->runs.load(std::memory_order_relaxed)) least = &runner;
  }
  least->runs.fetch_add(1, std::memory_order_relaxed);
  return Run(*least);
}

}  // namespace callout::internal
