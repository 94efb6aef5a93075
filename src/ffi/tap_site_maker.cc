// SPDX-License-Identifier: Apache-2.0
#include "ffi/tap_site_maker.h"

#include <string>
#include <utility>
#include <vector>

namespace callout::internal {
namespace {

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0;;) {
    const size_t end = text.find('\n', begin);
    lines.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return lines;
    begin = end + 1;
  }
}

}  // namespace

std::unique_ptr<TapSite> MakeTapSite(std::shared_ptr<Callback> callback, const TapAttributes& said) {
  SiteInfo info = {std::string(said.label.empty() ? std::string_view(callback->label()) : said.label),
                   SplitLines(said.leaves), said.offsets, said.step};
  auto throttle =
      std::make_unique<Throttle>(said.every, said.min_interval_ns, static_cast<double>(said.sample_ppb) / kAllPpb);
  auto site = std::make_unique<TapSite>(std::move(callback), std::move(info), std::move(throttle), said.on_full);
  site->senders = {said.only_device, said.only_process};
  return site;
}

}  // namespace callout::internal
