// SPDX-License-Identifier: Apache-2.0
//
// A tap's place: in a program, for as long as the executable or a record of it lives; or outside of programs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "callout/export.h"
#include "callout/queue_policy.h"
#include "core/attributes/tap_attributes.h"
#include "core/base/live_count.h"
#include "core/base/process_state.h"
#include "core/callbacks/callback.h"
#include "core/delivery/throttle.h"

namespace callout::internal {

struct SenderFilter {
  int64_t device_ordinal = -1;
  int64_t process_index = -1;

  /// True if it admits all devices.
  bool AdmitsAll() const { return device_ordinal < 0 && process_index < 0; }
  /// Thread-safe.
  bool Admits(int32_t device) const {
    return (device_ordinal < 0 || device == device_ordinal) && (process_index < 0 || ProcessIndex() == process_index);
  }
};

struct TapSite {
  /// For records of `to`, whatever the attributes call it.
  TapSite(std::shared_ptr<Callback> to, const TapAttributes& said)
      : callback(std::move(to)),
        info(InfoOf(*callback, said)),
        throttle(std::make_unique<Throttle>(said)),
        policy(said.on_full),
        inspector(callback->inspector()),
        senders{.device_ordinal = said.only_device, .process_index = said.only_process} {}

  const std::shared_ptr<Callback> callback;
  const SiteInfo info;
  const std::unique_ptr<Throttle> throttle;
  const OverflowPolicy policy;
  Inspector* const inspector;  ///< The callback's.
  /// Which of all devices and processes of the program send; -1: all.
  const SenderFilter senders;
  /// Records hold a plain pointer to their site. It is safe because a retired site travels through the same queues
  /// behind them: this counts the queues that it still has to come out of.
  std::atomic<int> retiring{0};
  Counted<LiveKind::kSite> counted;

 private:
  CALLOUT_EXPORT static SiteInfo InfoOf(const Callback& callback, const TapAttributes& said);
};

/// InvalidArgument if a site's record for `receiver` may not have so many buffers, without the step: one for each leaf,
/// and the offsets if the site has some. A site whose one leaf has no name sends values without arrays, too.
/// **Thread-safe.**
CALLOUT_EXPORT Status CheckBufferCount(const SiteInfo& info, const Callback& receiver, size_t count);

/// Takes the offsets, if the site's records have them, away from `buffers`.
inline std::span<const int64_t> TakeOffsets(const SiteInfo& info, std::span<const callout_buffer>& buffers) {
  if (!info.has_offsets || buffers.empty()) return {};
  const callout_buffer& last = buffers.back();
  buffers = buffers.first(buffers.size() - 1);
  return {static_cast<const int64_t*>(last.data), last.size_bytes / sizeof(int64_t)};
}

}  // namespace callout::internal
