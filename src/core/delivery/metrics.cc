// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/metrics.h"

#include "core/base/ticks.h"

namespace callout::internal {

std::span<const Metric<CallbackStats>> CallbackMetrics() {
  using Number = Metric<CallbackStats>::Number;
  static constexpr Metric<CallbackStats> kAll[] = {
      {"calls", "calls_total", "counter", "Calls that ended and tap records that were delivered.", "calls",
       [](const CallbackStats& one) -> Number { return one.calls(); }},
      {"bytes", "bytes_total", "counter", "Operands and results of calls, operands of taps.", "bytes",
       [](const CallbackStats& one) -> Number { return one.bytes(); }},
      {"host_seconds", "host_seconds_total", "counter", "Time inside the callback.", "time",
       [](const CallbackStats& one) -> Number { return TicksToNanoseconds(one.host_ticks.load()) * 1e-9; }},
      {"drops", "dropped_records_total", "counter",
       "Tap records that a full or closed queue did not take, or for which there was no memory.", "dropped",
       [](const CallbackStats& one) -> Number { return one.drops.load(); }},
      {"skips", "skipped_records_total", "counter", "Tap records that every=, min_interval= or sample= left out.",
       "skipped", [](const CallbackStats& one) -> Number { return one.skips.load(); }},
      {"errors", "errors_total", "counter", "Calls and deliveries that failed.", "errors",
       [](const CallbackStats& one) -> Number { return one.errors.load(); }},
  };
  return kAll;
}

std::span<const Metric<NamedQueueStats>> QueueMetrics() {
  using Number = Metric<NamedQueueStats>::Number;
  static constexpr Metric<NamedQueueStats> kAll[] = {
      {"pending_bytes", "pending_bytes", "gauge", "Bytes that wait for delivery.", "pending",
       [](const NamedQueueStats& queue) -> Number { return queue.stats.pending_bytes; }},
      {"high_water_bytes", "high_water_bytes", "gauge", "Most bytes that ever waited for delivery.", "high water",
       [](const NamedQueueStats& queue) -> Number { return queue.stats.high_water_bytes; }},
      {"capacity_bytes", "capacity_bytes", "gauge", "Bytes that the queue takes.", "capacity",
       [](const NamedQueueStats& queue) -> Number { return queue.stats.capacity_bytes; }},
      {"blocked", "blocked_total", "counter", "Times that a program waited for room.", "blocked",
       [](const NamedQueueStats& queue) -> Number { return queue.stats.blocked + queue.upstream.blocked; }},
      {"on_device", "on_device", "gauge", "Records that are on their way from a GPU.", "on device",
       [](const NamedQueueStats& queue) -> Number { return queue.upstream.records; }},
      {"pinned_bytes", "pinned_bytes", "gauge", "Bytes of host memory that those take.", "",
       [](const NamedQueueStats& queue) -> Number { return queue.upstream.bytes; }},
  };
  return kAll;
}

}  // namespace callout::internal
