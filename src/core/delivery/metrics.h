// SPDX-License-Identifier: Apache-2.0
//
// The counters of the statistics, each described once: for callout.stats() and for Prometheus, in Python and in C++.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "callout/export.h"
#include "core/callbacks/callback.h"
#include "core/delivery/delivery.h"

namespace callout::internal {

/// A counter of a `Source`: its names, and the function that reads it.
template <typename Source>
struct Metric {
  using Number = std::variant<uint64_t, double>;

  const char* key;   ///< Key in callout.stats().
  const char* name;  ///< Name in Prometheus, after a prefix.
  const char* type;  ///< Type in Prometheus: "counter" or "gauge".
  const char* help;
  const char* column;  ///< Column in the tables of callout.stats(); "": none.
  Number (*read)(const Source&);
};

/// Returns the counters of callbacks, by label. Thread-safe.
CALLOUT_EXPORT std::span<const Metric<CallbackStats>> CallbackMetrics();

/// Returns the counters of queues. Thread-safe.
CALLOUT_EXPORT std::span<const Metric<NamedQueueStats>> QueueMetrics();

}  // namespace callout::internal
