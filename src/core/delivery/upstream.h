// SPDX-License-Identifier: Apache-2.0
//
// What holds records before they come to the queues: values that are still on their way from a device. Whatever waits
// for deliveries waits for it first.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/callbacks/callback.h"
#include "core/delivery/tap_site.h"

namespace callout::internal {

/// Records of one worker and device that are under way.
struct UpstreamStats {
  Worker worker = Worker::kNative;
  int32_t device_ordinal = -1;
  uint64_t records = 0;         ///< Taken, and not yet in their queue.
  uint64_t bytes = 0;           ///< Host memory that they occupy.
  uint64_t capacity_bytes = 0;  ///< How much they may occupy.
  uint64_t blocked = 0;         ///< Times that a program waited for room, since the start.
};

/// All functions are thread-safe; the GIL is not needed. Those that wait must not be called with the GIL held.
class Upstream {
 public:
  static constexpr int32_t kAllDevices = -1;

  virtual ~Upstream() = default;

  /// Blocks until the records that were taken before the call are in their queues or are known to be lost, or until
  /// `deadline`. Empty, or a description of what is outstanding.
  virtual std::vector<std::string> HandOver(int32_t device_ordinal, std::chrono::steady_clock::time_point deadline) = 0;
  /// Failures that came up too late for their program, and that no later program was told: to the next barrier.
  virtual void ReportFailures() = 0;
  /// Takes ownership of the site, and gives it to Delivery::RetireFromQueues behind its last record; or leaves it, if
  /// there is none.
  virtual void Retire(std::unique_ptr<TapSite>& site) = 0;
  /// Ends what runs and gives back what is not needed, until there is a record again.
  virtual void Park() = 0;
  /// From now on nothing is taken, and programs that wait for room go on. Returns the number of records that will not
  /// be delivered.
  virtual uint64_t Close() = 0;

  virtual std::vector<UpstreamStats> Statistics() const = 0;
  /// Threads that run.
  virtual int RunningThreads() const = 0;
};

}  // namespace callout::internal
