// SPDX-License-Identifier: Apache-2.0
//
// The thread of DeviceTaps. What a device has written can only be found by looking: first without a pause, then less
// and less often. The device is asked now and then whether it still works, since nothing arrives from one that does
// not.
#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <exception>
#include <system_error>

#include "cuda/taps/device_taps.h"

namespace callout::internal {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr int kLooksWithoutPause = 100;
constexpr microseconds kFirstNap{20};
constexpr microseconds kLongestNap{500};
constexpr microseconds kBetweenChecks{10'000};

}  // namespace

void DeviceTaps::Wake() {
  if (!running_.load(std::memory_order_seq_cst)) Start();  // after `outstanding` was raised: pairs with Park
  wakeup_.Notify();
}

void DeviceTaps::Start() {
  MutexLock lock(thread_mutex_);
  if (running_.load(std::memory_order_relaxed) || closed_.load(std::memory_order_acquire)) return;
  if (thread_.joinable()) thread_.join();
  stop_.store(false, std::memory_order_relaxed);
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), "callout: cannot start the thread 'callout-device', which collects taps");
  }
  running_.store(true, std::memory_order_seq_cst);
}

void DeviceTaps::StartOrLater() noexcept {
  try {
    Start();
  } catch (const std::exception&) {  // no thread or no memory: the next record, or who waits for one, tries again
  }
}

void DeviceTaps::Stop() {
  MutexLock lock(thread_mutex_);
  stop_.store(true, std::memory_order_seq_cst);
  wakeup_.Interrupt();
  if (thread_.joinable()) thread_.join();
}

int DeviceTaps::RunningThreads() const { return running_.load(std::memory_order_seq_cst) ? 1 : 0; }

void DeviceTaps::Run() {
  pthread_setname_np(pthread_self(), "callout-device");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // naps end within a microsecond of their time, not within 50
  const auto has_work = [this] { return drainer_.outstanding.load(std::memory_order_seq_cst) > 0; };
  int looks = 0;
  microseconds nap = kFirstNap;
  auto next_check = steady_clock::now() + kBetweenChecks;
  while (!stop_.load(std::memory_order_seq_cst)) {
    if (!has_work()) wakeup_.Sleep([&] { return has_work() || stop_.load(std::memory_order_seq_cst); });
    if (DrainOnce()) {
      looks = 0;
      nap = kFirstNap;
      next_check = steady_clock::now() + kBetweenChecks;
    } else if (++looks > kLooksWithoutPause) {
      wakeup_.Nap(nap);
      nap = std::min(2 * nap, kLongestNap);
      if (steady_clock::now() < next_check) continue;
      for (const auto& device : own_devices_) device->Check();
      next_check = steady_clock::now() + kBetweenChecks;
    }
  }
  own_devices_.clear();  // see Park
  own_version_ = 0;
  running_.store(false, std::memory_order_seq_cst);
}

bool DeviceTaps::DrainOnce() {
  if (const uint64_t version = devices_version_.load(std::memory_order_acquire); version != own_version_) {
    own_version_ = version;
    own_devices_ = Devices();
  }
  bool progress = false;
  for (const auto& device : own_devices_) progress = device->HandOver() || progress;
  if (!progress) return false;
  FinishRetirements();
  NotifyProgress();
  return true;
}

void DeviceTaps::NotifyProgress() {
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(mutex_);
  progress_.notify_all();
}

}  // namespace callout::internal
