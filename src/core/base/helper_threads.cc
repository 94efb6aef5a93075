// SPDX-License-Identifier: Apache-2.0
#include "core/base/helper_threads.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/platform.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {
namespace {

constexpr auto kIdleTime = std::chrono::seconds(5);  // after this time an idle thread ends

std::atomic<void (*)()> g_last{nullptr};  // called by each thread at its end

class HelperThreads {
 public:
  void Run(std::function<void()> task) {
    MutexLock lock(mutex_);
    if (idle_ > tasks_.size()) {
      tasks_.push_back(std::move(task));
      changed_.notify_one();
      return;
    }
    std::thread([this, first = std::move(task)]() mutable { Work(std::move(first)); }).detach();
  }

 private:
  void Work(std::function<void()> task) {
    NameThisThread("callout-spare");
    do {
      task();
      task = nullptr;  // releases the task's resources before the thread is idle
    } while (Next(&task));
    if (const auto last = g_last.load()) last();
  }

  bool Next(std::function<void()>* task) {
    MutexLock lock(mutex_);
    ++idle_;
    const auto end = std::chrono::steady_clock::now() + kIdleTime;
    while (tasks_.empty()) {
      if (changed_.wait_until(mutex_, end) == std::cv_status::timeout && tasks_.empty()) break;
    }
    --idle_;
    if (tasks_.empty()) return false;
    *task = std::move(tasks_.front());
    tasks_.pop_front();
    return true;
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  size_t idle_ CALLOUT_GUARDED_BY(mutex_) = 0;  // each idle thread will take one of tasks_
  std::deque<std::function<void()>> tasks_ CALLOUT_GUARDED_BY(mutex_);
};

// Leaked: its threads may outlive static destruction. Null until the first task, and in a forked child, where the
// parent's threads do not exist: the parent runs their tasks, and their lock may be held.
std::atomic<HelperThreads*> current{nullptr};

HelperThreads& Current() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
  (void)registered;
  HelperThreads* threads = current.load();
  if (threads != nullptr) return *threads;
  auto made = std::make_unique<HelperThreads>();
  return current.compare_exchange_strong(threads, made.get()) ? *made.release() : *threads;
}

}  // namespace

void RunOnHelperThread(std::function<void()> task) { Current().Run(std::move(task)); }

void AtEndOfHelperThreads(void (*last)()) { g_last.store(last); }

}  // namespace callout::internal
