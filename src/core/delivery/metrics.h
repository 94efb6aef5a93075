// SPDX-License-Identifier: Apache-2.0
//
// The numbers of the statistics, each described once: for callout.stats() and for Prometheus, in Python and in C++.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "callout/export.h"
#include "core/callbacks/callback.h"
#include "core/delivery/delivery.h"

namespace callout::internal {

/// How numbers of one kind are read off their `Source`, and what they are called.
template <typename Source>
struct Metric {
  using Number = std::variant<uint64_t, double>;

  const char* key;   ///< In callout.stats().
  const char* name;  ///< In Prometheus, behind a prefix.
  const char* type;  ///< In Prometheus: "counter", "gauge".
  const char* help;
  const char* column;  ///< In the tables of callout.stats(); "": none.
  Number (*read)(const Source&);
};

/// The numbers of callbacks, by label. Thread-safe.
CALLOUT_EXPORT std::span<const Metric<CallbackStats>> CallbackMetrics();

/// The numbers of queues. Thread-safe.
CALLOUT_EXPORT std::span<const Metric<NamedQueueStats>> QueueMetrics();

}  // namespace callout::internal
