// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/handle.h"

#include <cstdlib>
#include <exception>

#include "core/base/platform.h"
#include "cuda/driver/device.h"

namespace callout::internal::cuda {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPatienceAtExit{1};

void Destroy(const Remains& remains) {
  if (!MayCallDriver()) return;
  const ContextScope current(*remains.driver, remains.context, remains.ordinal);
  const AsideOfCaptures aside(*remains.driver);  // Other threads may be capturing.
  remains.destroy(*remains.driver, remains.value);
}

}  // namespace

Reaper& Reaper::Get() {
  static auto* const reaper = [] {
    // The driver is loaded by now, so this handler runs before the driver's own exit handlers.
    (void)std::atexit(&Reaper::AtExit);
    return new Reaper;
  }();
  return *reaper;
}

void Reaper::Take(const Remains& remains) noexcept {
  if (!MayCallDriver()) return;
  const MutexLock lock(mutex_);
  if (closed_) return;
  try {
    waiting_.push_back(remains);
    ++taken_;
    if (!running_) Start();
  } catch (const std::exception&) {
    // Without memory or a thread, the next handle that is released tries again.
  }
}

void Reaper::Start() {
  // The old thread only has to return. Nobody waits for that, because the driver runs destructors of its own in its
  // threads.
  if (thread_.joinable()) thread_.detach();
  thread_ = std::thread([this] { Run(); });
  running_ = true;
}

void Reaper::Run() {
  NameThisThread("callout-reaper");
  MutexLock lock(mutex_);
  while (!waiting_.empty() && !closed_) {
    const Remains remains = waiting_.front();
    waiting_.pop_front();
    mutex_.unlock();
    Destroy(remains);
    mutex_.lock();
    ++destroyed_;
    changed_.notify_all();
  }
  running_ = false;
  changed_.notify_all();
}

bool Reaper::Flush(steady_clock::time_point deadline) {
  const MutexLock lock(mutex_);
  const uint64_t goal = taken_;
  while (running_ && destroyed_ < goal) {
    if (deadline == steady_clock::time_point::max()) {
      changed_.wait(mutex_);
    } else if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      break;
    }
  }
  return destroyed_ >= goal;
}

int Reaper::RunningThreads() const {
  const MutexLock lock(mutex_);
  return running_ ? 1 : 0;
}

void Reaper::AtExit() {
  if (ProcessIsForkedChild()) return;
  Reaper& reaper = Get();
  const MutexLock lock(reaper.mutex_);
  reaper.closed_ = true;
  const auto deadline = steady_clock::now() + kPatienceAtExit;
  while (reaper.running_ && reaper.changed_.wait_until(reaper.mutex_, deadline) != std::cv_status::timeout) {
  }
  // A thread that is still running hangs in the driver.
  if (!reaper.thread_.joinable()) return;
  if (reaper.running_) {
    reaper.thread_.detach();
  } else {
    reaper.thread_.join();
  }
}

}  // namespace callout::internal::cuda
