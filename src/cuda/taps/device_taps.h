// SPDX-License-Identifier: Apache-2.0
//
// Taps on devices: what their programs send comes to the queues through here. One thread looks for what has arrived,
// and only while something is under way. It never waits: neither for a device nor for room in a queue.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "callout/export.h"
#include "core/base/thread_annotations.h"
#include "core/delivery/bounded_queue.h"
#include "core/delivery/delivery.h"
#include "cuda/taps/tap_device.h"

namespace callout::internal {

struct DeviceTapOptions {
  /// Pinned memory of each device and worker, bytes. Records of more than half of it get blocks of their own, which
  /// together may be as large as a queue.
  uint64_t ring_bytes = 8 << 20;
};

/// Thread-safe. GIL not needed.
class CALLOUT_EXPORT DeviceTaps final : public Upstream {
 public:
  /// The process's, of Delivery::Get(); never destroyed.
  static DeviceTaps& Get();

  /// `delivery` outlives this, and gets its records from here.
  explicit DeviceTaps(Delivery& delivery, DeviceTapOptions options = {});
  ~DeviceTaps() override;
  DeviceTaps(const DeviceTaps&) = delete;
  DeviceTaps& operator=(const DeviceTaps&) = delete;

  /// The taps of a device, made by the first call for it.
  Result<std::shared_ptr<TapDevice>> On(int ordinal);

  /// Sends a record, if the site's senders and throttle admit it. See TapDevice::Take.
  Status Take(TapSite& site, const DeviceSending& sending);

  std::vector<std::string> HandOver(int32_t device_ordinal, std::chrono::steady_clock::time_point deadline) override;
  void ReportFailures() override;
  void Retire(std::unique_ptr<TapSite>& site) override;
  void Park() override;
  uint64_t Close() override;
  std::vector<UpstreamStats> Statistics() const override;
  int RunningThreads() const override;

 private:
  struct Goal {
    std::shared_ptr<TapDevice> device;
    Worker worker;
    uint64_t taken;
    bool IsReached() const { return device->handed_over(worker) >= taken; }
  };
  struct Retirement {
    std::unique_ptr<TapSite> site;
    std::vector<Goal> goals;
  };

  std::shared_ptr<TapDevice> Existing(int ordinal) const;
  std::vector<std::shared_ptr<TapDevice>> Devices() const;
  std::vector<Goal> Goals(int32_t device_ordinal) const;
  void Wake();
  void StartOrLater() noexcept;
  void Start();
  void Stop();
  void Run();
  bool DrainOnce();
  void FinishRetirements();
  void NotifyProgress();

  Delivery& delivery_;
  const DeviceTapOptions options_;
  TapDrainer drainer_;
  Mutex making_mutex_;  ///< Before mutex_.
  Wakeup wakeup_;
  mutable Mutex mutex_;
  std::condition_variable_any progress_;
  std::atomic<int> waiters_{0};
  std::map<int, std::shared_ptr<TapDevice>> devices_ CALLOUT_GUARDED_BY(mutex_);
  std::atomic<uint64_t> devices_version_{0};
  std::vector<Retirement> retirements_ CALLOUT_GUARDED_BY(mutex_);
  std::atomic<size_t> num_retirements_{0};
  std::atomic<bool> closed_{false};

  mutable Mutex thread_mutex_;
  std::thread thread_ CALLOUT_GUARDED_BY(thread_mutex_);
  std::atomic<bool> running_{false};
  std::atomic<bool> stop_{false};

  // The thread's own.
  std::vector<std::shared_ptr<TapDevice>> own_devices_;
  uint64_t own_version_ = 0;
};

}  // namespace callout::internal
