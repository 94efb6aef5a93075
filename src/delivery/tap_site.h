// SPDX-License-Identifier: Apache-2.0
//
// A tap's place in a program, for as long as the executable or a record of it lives.
#pragma once

#include <atomic>
#include <memory>

#include "base/live_count.h"
#include "callout/queue_policy.h"
#include "delivery/throttle.h"
#include "registry/callback.h"

namespace callout::internal {

struct TapSite {
  TapSite(std::shared_ptr<Callback> to, SiteInfo site_info, std::shared_ptr<Throttle> site_throttle,
          OverflowPolicy overflow_policy)
      : callback(std::move(to)),
        info(std::move(site_info)),
        throttle(std::move(site_throttle)),
        policy(overflow_policy) {}

  const std::shared_ptr<Callback> callback;
  const SiteInfo info;
  const std::shared_ptr<Throttle> throttle;  ///< Shared by the records of an eager loop, which has a site a call.
  const OverflowPolicy policy;
  /// Records hold a plain pointer to their site. It is safe because a retired site travels through the same queues
  /// behind them: this counts the queues that it still has to come out of.
  std::atomic<int> retiring{0};
  Counted<LiveKind::kSite> counted;
};

}  // namespace callout::internal
