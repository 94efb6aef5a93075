// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/watchdog.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/fork_mutex.h"
#include "core/base/log.h"
#include "core/base/platform.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/in_flight.h"
#include "core/delivery/delivery.h"

namespace callout::internal {
namespace {

using std::chrono::steady_clock;

struct Sighting {
  uint64_t serial = 0;
  steady_clock::time_point since;
};

const char* Describe(Activity activity) {
  switch (activity) {
    case Activity::kCall:
      return "in a callback that its program waits for";
    case Activity::kDelivery:
      return "in a tap's function";
    case Activity::kWaitingForRoom:
      return "waiting for room in a full tap queue";
    case Activity::kWaitingForTaps:
      return "an ordered call waiting for the delivery of earlier taps";
    case Activity::kIdle:
      break;
  }
  return "idle";
}

const char* Remedy(Activity activity, bool has_interpreter) {
  if (!has_interpreter) {
    return "A callback that runs another program on the same device, or waits for it to deliver its taps, can wait for "
           "its own program.";
  }
  if (activity == Activity::kWaitingForRoom) {
    return "The tap's function is slower than the program, or waits for it (a tap function that uses JAX can wait for "
           "the very program that waits for room: use on_full=\"drop_newest\", or NumPy in the function).";
  }
  return "A callback that uses JAX can wait for computations that are queued behind its own program: use NumPy in it, "
         "or call block_until_ready() on the inputs before the program is dispatched.";
}

// XLA warns after other devices have waited for one device for 10 seconds, and ends the process 30 seconds later.
constexpr double kLatestOfSeveralGpus = 20;

double ReportAfter(const InFlight& reading, double seconds) {
  return reading.holds_gpu && HasSeveralGpus() ? std::min(seconds, kLatestOfSeveralGpus) : seconds;
}

std::string GpuRemedy(const InFlight& reading, bool has_interpreter) {
  std::string text;
  if (!reading.holds_gpu) return text;
  if (has_interpreter && reading.activity == Activity::kCall) {
    text +=
        " On a GPU, a callback waits for ever whose JAX code is compiled for that GPU meanwhile, if XLA autotunes it: "
        "compile it before, use another device, or set XLA_FLAGS=--xla_gpu_autotune_level=0.";
  }
  if (HasSeveralGpus()) {
    text +=
        " XLA ends the process when other GPUs have waited for this one for 40 s: "
        "XLA_FLAGS=\"--xla_gpu_executable_warn_stuck_timeout=60 --xla_gpu_executable_terminate_timeout=600\" makes it "
        "wait longer.";
  }
  return text;
}

std::string FormatReport(const InFlight& reading, double age_seconds, StackDumper dumper) {
  char head[256];
  std::snprintf(head, sizeof(head), "has made no progress for %.1f s (device %d, run %lld, thread %lld, %s). ",
                age_seconds, reading.device_ordinal, static_cast<long long>(reading.run_id),
                static_cast<long long>(reading.thread_id), Describe(reading.activity));
  std::string text = "hang report: callback '" + LabelOf(reading.callback_id) + "' " + head;
  text += Delivery::Get().DescribeQueues() + ". " + Remedy(reading.activity, dumper != nullptr);
  text += GpuRemedy(reading, dumper != nullptr);
  if (dumper != nullptr) text += "\n" + dumper();
  return text;
}

class Watchdog;
Watchdog& GetWatchdog();

class Watchdog {
 public:
  void Configure(double seconds) {
    {
      MutexLock lock(mutex_);
      seconds_ = seconds;
      configured_ = true;
      if (seconds > 0 && !thread_.joinable()) stop_ = false;
      changed_.notify_all();
    }
    WhenThreadsCall([] { GetWatchdog().Start(); });
  }

  // Starts the thread, after the first callback.
  void Start() {
    std::string failure;
    {
      MutexLock lock(mutex_);
      if (!(seconds_ > 0) || stop_ || thread_.joinable()) return;
      try {
        thread_ = std::thread([this] { Run(); });
      } catch (const std::system_error& error) {
        stop_ = true;
        failure = error.what();
      }
    }
    if (!failure.empty()) Log(LogLevel::kWarning, "hangs are not reported: cannot start a thread: " + failure);
  }

  void ConfigureOnce(double seconds) {
    {
      MutexLock lock(mutex_);
      if (configured_) return;
    }
    Configure(seconds);
  }

  void SetDumper(StackDumper dumper) { dumper_.store(dumper, std::memory_order_release); }

  void Stop() {
    std::thread ended;
    {
      MutexLock lock(mutex_);
      stop_ = true;
      changed_.notify_all();
      ended = std::move(thread_);
    }
    if (ended.joinable()) ended.join();
  }

 private:
  void Run() {
    NameThisThread("callout-watch");
    for (;;) {
      double seconds;
      {
        MutexLock lock(mutex_);
        const double period = seconds_ > 0 ? std::clamp(seconds_ / 4, 0.02, 5.0) : 5.0;
        if (!stop_) changed_.wait_for(mutex_, std::chrono::duration<double>(period));
        if (stop_) return;
        seconds = seconds_;
      }
      if (seconds > 0) Look(seconds);
    }
  }

  void Look(double seconds) {
    const auto now = steady_clock::now();
    std::map<int64_t, Sighting> seen;
    for (const InFlight& reading : ReadInFlight()) {
      Sighting sighting = sightings_[reading.thread_id];
      if (sighting.serial != reading.serial) sighting = {reading.serial, now};
      seen[reading.thread_id] = sighting;
      const double age = std::chrono::duration<double>(now - sighting.since).count();
      if (age < ReportAfter(reading, seconds) || !reported_.insert(reading.callback_id).second) continue;
      Log(LogLevel::kError, FormatReport(reading, age, dumper_.load(std::memory_order_acquire)));
    }
    sightings_ = std::move(seen);
    if (reported_.size() > 1024) reported_.clear();
  }

  ForkMutex mutex_;
  std::condition_variable_any changed_;
  double seconds_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool configured_ CALLOUT_GUARDED_BY(mutex_) = false;
  bool stop_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::thread thread_ CALLOUT_GUARDED_BY(mutex_);
  std::atomic<StackDumper> dumper_{nullptr};
  std::map<int64_t, Sighting> sightings_;  // by kernel thread id; only the watchdog's thread uses it
  std::set<uint64_t> reported_;            // callback ids; only the watchdog's thread uses it
};

Watchdog& GetWatchdog() {
  static Watchdog* const watchdog = new Watchdog;  // leaked: its thread may outlive static destruction
  return *watchdog;
}

}  // namespace

void SetHangReportSeconds(double seconds) { GetWatchdog().Configure(seconds); }
void SetDefaultHangReportSeconds(double seconds) { GetWatchdog().ConfigureOnce(seconds); }
void SetStackDumper(StackDumper dumper) { GetWatchdog().SetDumper(dumper); }
void StopWatchdog() { GetWatchdog().Stop(); }

}  // namespace callout::internal
