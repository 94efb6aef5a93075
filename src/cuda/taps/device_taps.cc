// SPDX-License-Identifier: Apache-2.0
#include "cuda/taps/device_taps.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "core/base/cat.h"
#include "core/base/platform.h"
#include "core/base/process_state.h"
#include "core/callbacks/invoke.h"

namespace callout::internal {

using std::chrono::steady_clock;

DeviceTaps& DeviceTaps::Get() {
  static DeviceTaps* const taps = new DeviceTaps(Delivery::Get());  // Leaked, like Delivery.
  return *taps;
}

DeviceTaps::DeviceTaps(Delivery& delivery, DeviceTapOptions options) : delivery_(delivery), options_(options) {
  drainer_.wake = [this] { Wake(); };
  delivery.SetUpstream(this);
}

DeviceTaps::~DeviceTaps() {
  delivery_.SetUpstream(nullptr);
  Stop();
}

std::shared_ptr<TapDevice> DeviceTaps::Existing(int ordinal) const {
  MutexLock lock(mutex_);
  const auto found = devices_.find(ordinal);
  return found == devices_.end() ? nullptr : found->second;
}

Result<std::shared_ptr<TapDevice>> DeviceTaps::On(int ordinal) {
  if (ProcessIsForkedChild()) return ForkedChildError();  // CUDA does not work in a forked child.
  if (auto device = Existing(ordinal)) return device;
  // Does not hold `mutex_` here, which reports of hangs take, because the driver may hang.
  MutexLock making(making_mutex_);
  if (auto device = Existing(ordinal)) return device;
  CALLOUT_ASSIGN_OR_RETURN(auto device, TapDevice::New(delivery_, drainer_, ordinal, options_.ring_bytes));
  MutexLock lock(mutex_);
  devices_.emplace(ordinal, device);
  devices_version_.fetch_add(1, std::memory_order_release);  // Pairs with DrainOnce.
  return device;
}

Status DeviceTaps::Take(TapSite& site, const DeviceSending& sending) {
  const int32_t ordinal = sending.device_ordinal;
  if (!site.senders.Admits(ordinal)) return OkStatus();
  const bool waits_for_step = site.has_rows || (site.info.has_step && site.throttle->AsksForStep());
  if (!waits_for_step && !Delivery::Admit(site, ordinal, std::nullopt)) return OkStatus();
  if (closed_.load(std::memory_order_acquire)) {
    (void)delivery_.Refuse(site, ordinal, BoundedQueue::Outcome::kClosed);
    return OkStatus();
  }
  const auto device = On(ordinal);
  if (device.ok()) return (*device)->Take(site, sending);
  return device.status().WithMessage(DescribeFailure(*site.callback, ordinal, device.status()));
}

std::vector<std::shared_ptr<TapDevice>> DeviceTaps::Devices() const {
  std::vector<std::shared_ptr<TapDevice>> devices;
  MutexLock lock(mutex_);
  for (const auto& [ordinal, device] : devices_) devices.push_back(device);
  return devices;
}

std::vector<DeviceTaps::Goal> DeviceTaps::Goals(int32_t device_ordinal) const {
  std::vector<Goal> goals;
  for (const auto& device : Devices()) {
    if (device_ordinal != kAllDevices && device_ordinal != device->ordinal()) continue;
    for (const Worker worker : {Worker::kPython, Worker::kNative}) {
      Goal goal = {device, worker, device->taken(worker)};
      if (!goal.IsReached()) goals.push_back(std::move(goal));
    }
  }
  return goals;
}

std::vector<std::string> DeviceTaps::Flush(int32_t device_ordinal, steady_clock::time_point deadline) {
  std::vector<std::string> outstanding;
  if (ProcessIsForkedChild() || closed_.load(std::memory_order_acquire)) return outstanding;
  const std::vector<Goal> goals = Goals(device_ordinal);
  if (goals.empty()) return outstanding;
  if (!running_.load(std::memory_order_seq_cst)) Start();  // Starting the thread may have failed earlier.
  const auto reached = [&] {
    return std::all_of(goals.begin(), goals.end(), [](const Goal& goal) { return goal.IsReached(); }) ||
           closed_.load(std::memory_order_acquire);
  };
  {
    MutexLock lock(mutex_);
    // Incremented before reading the goals: pairs with NotifyProgress.
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    while (!reached()) {
      wakeup_.Interrupt();
      if (deadline == steady_clock::time_point::max()) {
        progress_.wait(mutex_);
      } else if (progress_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
        break;
      }
    }
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  for (const Goal& goal : goals) {
    if (goal.IsReached() || closed_.load(std::memory_order_acquire)) continue;
    outstanding.push_back(Cat(goal.taken - goal.device->flushed(goal.worker), " records of the ",
                              WorkerName(goal.worker), " queue on their way from device ", goal.device->ordinal()));
  }
  return outstanding;
}

void DeviceTaps::ReportFailures() {
  if (ProcessIsForkedChild()) return;
  for (const auto& device : Devices()) device->ReportFailure();
}

void DeviceTaps::Retire(std::unique_ptr<TapSite>& site) {
  if (ProcessIsForkedChild() || closed_.load(std::memory_order_acquire)) return;
  std::vector<Goal> goals = Goals(kAllDevices);
  std::erase_if(goals, [&](const Goal& goal) { return goal.worker != site->callback->worker(); });
  if (goals.empty()) return;
  {
    MutexLock lock(mutex_);
    retirements_.push_back({std::move(site), std::move(goals)});
    num_retirements_.store(retirements_.size(), std::memory_order_seq_cst);
  }
  // The last goal may have been reached meanwhile, with no later record to notice that.
  FinishRetirements();
}

void DeviceTaps::FinishRetirements() {
  if (num_retirements_.load(std::memory_order_seq_cst) == 0) return;
  std::vector<std::unique_ptr<TapSite>> ready;
  {
    MutexLock lock(mutex_);
    std::erase_if(retirements_, [&](Retirement& retirement) {
      std::erase_if(retirement.goals, [](const Goal& goal) { return goal.IsReached(); });
      if (!retirement.goals.empty()) return false;
      ready.push_back(std::move(retirement.site));
      return true;
    });
    num_retirements_.store(retirements_.size(), std::memory_order_seq_cst);
  }
  for (auto& site : ready) delivery_.RetireFromQueues(std::move(site));
}

void DeviceTaps::Park() {
  if (ProcessIsForkedChild()) return;
  Stop();
  // A program that takes a slot from now on starts the thread again; this load sees all earlier slots.
  if (drainer_.outstanding.load(std::memory_order_seq_cst) > 0) return StartOrLater();
  // `idle` is declared before the lock, so its devices are destroyed after the unlock. The driver may wait in their
  // destructors.
  std::vector<std::shared_ptr<TapDevice>> idle;
  MutexLock lock(mutex_);
  for (auto device = devices_.begin(); device != devices_.end();) {
    // A device is erased only without other references. A program that is about to take a slot has a reference, and no
    // thread can take a new one while this thread holds mutex_.
    const auto here = device++;
    if (here->second.use_count() > 1) continue;
    idle.push_back(std::move(here->second));
    devices_.erase(here);
  }
  devices_version_.fetch_add(1, std::memory_order_release);
}

uint64_t DeviceTaps::Close() {
  if (ProcessIsForkedChild()) return 0;
  // A waiter in Flush either sees this store, or NotifyProgress sees the waiter: Devices takes the waiters' lock in
  // between.
  closed_.store(true, std::memory_order_release);
  uint64_t lost = 0;
  for (const auto& device : Devices()) lost += device->Close();
  Stop();
  NotifyProgress();
  // The devices keep their memory, because they may still write to it.
  for (const UpstreamStats& stats : Statistics()) lost += stats.records;
  return lost;
}

std::vector<UpstreamStats> DeviceTaps::Statistics() const {
  std::vector<UpstreamStats> all;
  if (ProcessIsForkedChild()) return all;
  for (const auto& device : Devices()) {
    for (const Worker worker : {Worker::kPython, Worker::kNative}) {
      if (const UpstreamStats stats = device->Statistics(worker); stats.capacity_bytes > 0) all.push_back(stats);
    }
  }
  return all;
}

namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr int kLooksWithoutPause = 100;
constexpr microseconds kFirstWait{20};
constexpr microseconds kLongestWait{500};
constexpr microseconds kBetweenChecks{10'000};

}  // namespace

void DeviceTaps::Wake() {
  if (!running_.load(std::memory_order_seq_cst)) Start();  // `outstanding` was raised before: pairs with Park.
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
  } catch (const std::exception&) {  // Without thread or memory, the next record or waiter tries again.
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
  NameThisThread("callout-device");
  WakeOnTime();  // At the ends of naps.
  const auto has_work = [this] { return drainer_.outstanding.load(std::memory_order_seq_cst) > 0; };
  int looks = 0;
  microseconds nap = kFirstWait;
  auto next_check = steady_clock::now() + kBetweenChecks;
  while (!stop_.load(std::memory_order_seq_cst)) {
    if (!has_work()) wakeup_.Sleep([&] { return has_work() || stop_.load(std::memory_order_seq_cst); });
    if (DrainOnce()) {
      looks = 0;
      nap = kFirstWait;
      next_check = steady_clock::now() + kBetweenChecks;
    } else if (++looks > kLooksWithoutPause) {
      wakeup_.TimedWait(nap);
      nap = std::min(2 * nap, kLongestWait);
      if (steady_clock::now() < next_check) continue;
      for (const auto& device : own_devices_) device->Check();
      next_check = steady_clock::now() + kBetweenChecks;
    }
  }
  own_devices_.clear();  // Park requires that only programs hold devices.
  own_version_ = 0;
  running_.store(false, std::memory_order_seq_cst);
}

bool DeviceTaps::DrainOnce() {
  if (const uint64_t version = devices_version_.load(std::memory_order_acquire); version != own_version_) {
    own_version_ = version;
    own_devices_ = Devices();
  }
  bool progress = false;
  for (const auto& device : own_devices_) progress = device->Flush() || progress;
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
