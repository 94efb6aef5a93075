// SPDX-License-Identifier: Apache-2.0
//
// Makes sites of taps, for tests of delivery.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/delivery/tap_site.h"

namespace callout::internal {

struct SiteOptions {
  std::vector<std::string> leaf_names = {""};
  int64_t every = 1;
  OverflowPolicy policy = OverflowPolicy::kBlock;
};

inline std::unique_ptr<TapSite> MakeSite(std::shared_ptr<Callback> callback, SiteOptions options = {}) {
  std::string leaves;
  for (size_t i = 0; i < options.leaf_names.size(); ++i) leaves += (i == 0 ? "" : "\n") + options.leaf_names[i];
  TapAttributes attributes;
  attributes.leaves = leaves;
  attributes.every = options.every;
  attributes.on_full = options.policy;
  return std::make_unique<TapSite>(std::move(callback), attributes);
}

}  // namespace callout::internal
