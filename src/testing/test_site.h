// SPDX-License-Identifier: Apache-2.0
//
// Sites of taps, for tests of what delivers to them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "delivery/tap_site.h"

namespace callout::internal {

struct SiteOptions {
  std::vector<std::string> leaf_names = {""};
  int64_t every = 1;
  OverflowPolicy policy = OverflowPolicy::kBlock;
};

inline std::unique_ptr<TapSite> MakeSite(std::shared_ptr<Callback> callback, SiteOptions options = {}) {
  SiteInfo info = {callback->label(), std::move(options.leaf_names)};
  return std::make_unique<TapSite>(std::move(callback), std::move(info), std::make_unique<Throttle>(options.every, 0),
                                   options.policy);
}

}  // namespace callout::internal
