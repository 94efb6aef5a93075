// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/tap_site.h"

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/cat.h"

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

// A program has one empty name by default, even for a tap of nothing.
bool MayHaveNoArrays(const SiteInfo& info) {
  return info.leaf_names.size() == 1 && info.leaf_names[0].empty() && !info.has_offsets;
}

}  // namespace

Status CheckBufferCount(const SiteInfo& info, const Callback& receiver, size_t count) {
  const size_t expected = info.leaf_names.size() + (info.has_offsets ? 1 : 0);
  const bool is_empty = count == 0 && MayHaveNoArrays(info);
  if (count != expected && !is_empty) {
    return InvalidArgument(Cat("callout: tap '", info.label, "': expected ", expected,
                               " operands (attributes `leaves`, `offsets`), got ", count));
  }
  Status taken = receiver.CheckTap(is_empty ? 0 : info.leaf_names.size());
  if (taken.ok()) [[likely]]
    return OkStatus();
  return taken.WithMessage("callout: tap '" + info.label + "': " + std::string(taken.message()));
}

SiteInfo TapSite::InfoOf(const Callback& callback, const TapAttributes& attributes) {
  static std::atomic<uint64_t> last = 0;
  return {.label = std::string(attributes.label.empty() ? std::string_view(callback.label()) : attributes.label),
          .leaf_names = SplitLines(attributes.leaves),
          .has_offsets = attributes.offsets,
          .has_step = attributes.step,
          .id = 1 + last.fetch_add(1, std::memory_order_relaxed)};  // only a unique number
}

}  // namespace callout::internal
