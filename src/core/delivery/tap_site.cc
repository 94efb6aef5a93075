// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/tap_site.h"

#include <atomic>
#include <string>
#include <string_view>
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

// One empty name is what a program has by default, also for a tap of nothing.
bool MayHaveNoArrays(const SiteInfo& info) {
  return info.leaf_names.size() == 1 && info.leaf_names[0].empty() && !info.has_offsets;
}

}  // namespace

Status CheckBufferCount(const SiteInfo& info, const Callback& receiver, size_t count) {
  const size_t expected = info.leaf_names.size() + (info.has_offsets ? 1 : 0);
  const bool is_empty = count == 0 && MayHaveNoArrays(info);
  if (count != expected && !is_empty) {
    return InvalidArgument("callout: tap '" + info.label + "': expected " + std::to_string(expected) +
                           " operands (attributes `leaves`, `offsets`), got " + std::to_string(count));
  }
  Status taken = receiver.CheckTap(is_empty ? 0 : info.leaf_names.size());
  if (taken.ok()) [[likely]]
    return OkStatus();
  return Status(taken.code(), "callout: tap '" + info.label + "': " + std::string(taken.message()));
}

SiteInfo TapSite::InfoOf(const Callback& callback, const TapAttributes& said) {
  static std::atomic<uint64_t> last = 0;
  return {.label = std::string(said.label.empty() ? std::string_view(callback.label()) : said.label),
          .leaf_names = SplitLines(said.leaves),
          .has_offsets = said.offsets,
          .has_step = said.step,
          .id = 1 + last.fetch_add(1, std::memory_order_relaxed)};  // a number of its own is all that it is
}

}  // namespace callout::internal
