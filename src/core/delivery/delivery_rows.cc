// SPDX-License-Identifier: Apache-2.0
//
// The part of Delivery that takes the rows of taps, alone or as hand-overs of several taps; see tap_rows.h.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "callout/dtype.h"
#include "core/base/status.h"
#include "core/delivery/delivery.h"
#include "core/delivery/tap_rows.h"

namespace callout::internal {

Status Delivery::EnqueueRows(TapSite& site, const Sending& sending) {
  CALLOUT_ASSIGN_OR_RETURN(const TapRows rows, SplitRows(site, sending.buffers));
  const int32_t device = sending.device_ordinal;
  if (!site.senders.Admits(device)) return OkStatus();
  const auto place = sending.skipped ? Throttle::Place::kUpstream : Throttle::Place::kInProgram;
  // A sender that comes again would ask the throttle twice about each row, so it is not refused room any more.
  const bool comes_again = sending.patience == Patience::kComesAgain;
  if (comes_again && closed_.load(std::memory_order_acquire)) return Unavailable("the tap queue is closed");
  const bool sends = site.following == 0;
  if (comes_again && sends && !ChannelFor(site.callback->worker(), device)->queue->HasRoomNow()) {
    if (site.policy == OverflowPolicy::kBlock) return Unavailable("the tap queue is full");
  }
  AdmittedRows admitted(site, rows, device, place);
  if (site.hand_over != 0) return EnqueueHandOver(site, sending, std::move(admitted));
  if (admitted.count() == 0) {
    site.throttle->AddSkipped(sending.skipped.value_or(0), device, place);  // the next record reports them
    return OkStatus();
  }
  bool queued = false;
  Sending all = sending;
  all.buffers = admitted.buffers();
  all.rows = admitted.count();
  all.step = std::nullopt;
  all.queued = &queued;
  Status status = Enqueue(site, all);
  if (!queued) site.throttle->AddSkipped(admitted.skipped(), device, place);
  if (queued && sending.queued != nullptr) *sending.queued = true;
  return status;
}

// Returns the rows that the taps before this one have left, in their order.
std::vector<RowsOfTap> Delivery::TakeHandOver(const TapSite& site, const Sending& sending) {
  const MutexLock lock(hand_overs_mutex_);
  const auto at = std::find_if(hand_overs_.begin(), hand_overs_.end(), [&](const HandOver& one) {
    return one.run_id == sending.run_id && one.number == site.hand_over && one.device_ordinal == sending.device_ordinal;
  });
  if (at == hand_overs_.end()) return {};
  std::vector<RowsOfTap> taps = std::move(at->taps);
  hand_overs_.erase(at);
  return taps;
}

Status Delivery::EnqueueHandOver(TapSite& site, const Sending& sending, AdmittedRows rows) {
  std::vector<RowsOfTap> taps = TakeHandOver(site, sending);
  if (site.following > 0) {
    rows.Own();
    taps.push_back({&site, std::move(rows)});
    const MutexLock lock(hand_overs_mutex_);
    if (hand_overs_.size() == kMostHandOvers) hand_overs_.pop_front();  // of a program that failed
    hand_overs_.push_back({sending.run_id, site.hand_over, sending.device_ordinal, std::move(taps)});
    return OkStatus();
  }
  taps.push_back({&site, std::move(rows)});
  std::vector<callout_buffer> buffers(1);
  std::vector<RowsPart> parts = PartsOf(taps, buffers);
  const int32_t device = sending.device_ordinal;
  const auto place = sending.skipped ? Throttle::Place::kUpstream : Throttle::Place::kInProgram;
  if (parts.empty()) {
    site.throttle->AddSkipped(sending.skipped.value_or(0), device, place);
    return OkStatus();
  }
  // The entry of the queue belongs to the last site with rows, and its header has that site's skipped records.
  TapSite& last = *parts.back().site;
  for (RowsPart& part : parts) {
    if (part.site != &last && part.site->throttle->AdmitsAll())
      part.skipped = part.site->throttle->TakeSkipped(device, place);
  }
  const auto bytes = static_cast<int64_t>(parts.size() * sizeof(RowsPart));
  buffers.front() = {.dtype = static_cast<uint32_t>(DType::kUint8),
                     .rank = 1,
                     .data = parts.data(),
                     .dims = &bytes,
                     .size_bytes = static_cast<uint64_t>(bytes)};
  bool queued = false;
  Sending all = sending;
  all.buffers = buffers;
  for (const RowsPart& part : parts) all.rows += part.rows;
  all.taps = taps;
  all.step = std::nullopt;
  all.queued = &queued;
  Status status = Enqueue(last, all);
  if (queued && sending.queued != nullptr) *sending.queued = true;
  if (queued) return status;
  for (const RowsPart& part : parts) part.site->throttle->AddSkipped(part.skipped, device, place);
  for (const RowsOfTap& tap : taps) {  // The next record of each tap reports the rows that were not taken.
    tap.site->throttle->AddSkipped(tap.rows.skipped() + (tap.site == &last ? 0 : tap.rows.count()), device, place);
  }
  return status;
}

}  // namespace callout::internal
