// SPDX-License-Identifier: Apache-2.0
#include "pjrt/lanes.h"

#include <algorithm>

#include "pjrt/pjrt_abi.h"

namespace callout::internal {

Lanes::Lanes(std::unique_ptr<const pjrt::Client> client)
    : lanes_(client->devices().size()), client_(std::move(client)) {
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].device = client_->devices()[i].handle;
}

Lanes::Run Lanes::Take(std::span<const pjrt::Buffer* const> arguments) {
  // What other threads do meanwhile makes the choice a worse one, not a wrong one.
  const auto try_take = [](Lane& lane) {
    int idle = 0;
    return lane.runs.compare_exchange_strong(idle, 1, std::memory_order_relaxed);
  };
  if (!arguments.empty() && arguments[0]->client().get() == client_.get()) {
    PjrtArgs<PJRT_Buffer_Device_Args> args;
    args.buffer = arguments[0]->handle();
    if (CALLOUT_PJRT(client_->plugin().api(), PJRT_Buffer_Device, args).ok()) {
      const auto lane =
          std::find_if(lanes_.begin(), lanes_.end(), [&](Lane& one) { return one.device == args.device; });
      if (lane != lanes_.end() && try_take(*lane)) return Run(*lane);
    }
  }
  const size_t begin = next_.fetch_add(1, std::memory_order_relaxed);
  Lane* least = &lanes_[begin % lanes_.size()];
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[(begin + i) % lanes_.size()];
    if (try_take(lane)) return Run(lane);
    if (lane.runs.load(std::memory_order_relaxed) < least->runs.load(std::memory_order_relaxed)) least = &lane;
  }
  least->runs.fetch_add(1, std::memory_order_relaxed);
  return Run(*least);
}

}  // namespace callout::internal
