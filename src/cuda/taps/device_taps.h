// SPDX-License-Identifier: Apache-2.0
//
// Taps on devices: brings the records of programs on devices to the queues. One thread, the drainer, collects the
// records that have arrived, and runs only while some are on their way. It waits neither for a device nor for room in a
// queue.
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
  /// The size of the pinned ring of each device and worker, in bytes. A record larger than half of the ring gets a
  /// block of its own; all such blocks together may be as large as a queue.
  uint64_t ring_bytes = 8 << 20;
};

/// The records of all devices. Thread-safe. GIL not needed.
class CALLOUT_EXPORT DeviceTaps final : public Upstream {
 public:
  /// Returns the instance for Delivery::Get(), which is never destroyed.
  static DeviceTaps& Get();

  /// Records go to `delivery`. Borrowed: `delivery` must outlive this object.
  explicit DeviceTaps(Delivery& delivery, DeviceTapOptions options = {});
  ~DeviceTaps() override;
  DeviceTaps(const DeviceTaps&) = delete;
  DeviceTaps& operator=(const DeviceTaps&) = delete;

  /// Returns the taps of a device, which the first call for a device creates.
  Result<std::shared_ptr<TapDevice>> On(int ordinal);

  /// Sends a record if the site's senders and throttle admit it. See TapDevice::Take.
  Status Take(TapSite& site, const DeviceSending& sending);

  std::vector<std::string> Flush(int32_t device_ordinal, std::chrono::steady_clock::time_point deadline) override;
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
    bool IsReached() const { return device->flushed(worker) >= taken; }
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
  Mutex making_mutex_;  ///< Locked before mutex_.
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

  // Used by the drainer's thread only.
  std::vector<std::shared_ptr<TapDevice>> own_devices_;
  uint64_t own_version_ = 0;
};

}  // namespace callout::internal
