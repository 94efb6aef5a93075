// SPDX-License-Identifier: Apache-2.0
#include "host/pjrt/runners.h"

#include <algorithm>

#include "host/pjrt/topology.h"

namespace callout::internal {

namespace {

size_t CountDevices(const std::vector<std::unique_ptr<const pjrt::Client>>& clients) {
  size_t count = 0;
  for (const auto& client : clients) count += client->devices().size();
  return count;
}

// Takes the runner if it is idle. Relaxed, with no partner: a race with other threads makes the choice worse, not
// wrong.
bool TryTake(Runners::Runner& runner) {
  int idle = 0;
  return runner.runs.compare_exchange_strong(idle, 1, std::memory_order_relaxed);
}

}  // namespace

Runners::Runners(std::vector<std::unique_ptr<const pjrt::Client>> clients)
    : runners_(CountDevices(clients)), clients_(std::move(clients)) {
  auto runner = runners_.begin();
  for (size_t client = 0; client < clients_.size(); ++client) {
    for (const pjrt::Device& device : clients_[client]->devices()) {
      runner->device = device.handle;
      (runner++)->client = client;
    }
  }
}

Runners::Runner* Runners::TakeIdle(std::span<Runner> runners) {
  const size_t begin = next_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < runners.size(); ++i) {
    Runner& runner = runners[(begin + i) % runners.size()];
    if (TryTake(runner)) return &runner;
  }
  return nullptr;
}

Runners::Run Runners::Take(std::span<const pjrt::Buffer* const> arguments) {
  const std::span all(runners_);
  const auto preferred = all.first(clients_[0]->devices().size());
  if (!arguments.empty() && arguments[0]->client().get() == clients_[0].get()) {
    if (const auto device = DeviceOf(clients_[0]->plugin().api(), *arguments[0]); device.ok()) {
      const auto runner = std::ranges::find(preferred, *device, &Runner::device);
      if (runner != preferred.end() && TryTake(*runner)) return Run(*runner);
    }
  }
  Runner* taken = TakeIdle(preferred);
  if (taken == nullptr) taken = TakeIdle(all.subspan(preferred.size()));
  if (taken != nullptr) return Run(*taken);
  const size_t begin = next_.load(std::memory_order_relaxed);
  Runner* least = &all[begin % all.size()];
  for (Runner& runner : all) {
    if (runner.runs.load(std::memory_order_relaxed) < least->runs.load(std::memory_order_relaxed)) least = &runner;
  }
  least->runs.fetch_add(1, std::memory_order_relaxed);
  return Run(*least);
}

}  // namespace callout::internal
