// SPDX-License-Identifier: Apache-2.0
#include "core/base/spare_threads.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/thread_annotations.h"

namespace callout::internal {
namespace {

constexpr auto kIdleTime = std::chrono::seconds(5);  // then an idle thread ends

std::atomic<void (*)()> g_last{nullptr};  // what a thread calls at its end

class SpareThreads {
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
    pthread_setname_np(pthread_self(), "callout-spare");
    do {
      task();
      task = nullptr;  // what it holds is not kept while nothing is to do
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
  size_t idle_ CALLOUT_GUARDED_BY(mutex_) = 0;  // each will take one of tasks_
  std::deque<std::function<void()>> tasks_ CALLOUT_GUARDED_BY(mutex_);
};

// Leaked: its threads may outlive static destruction. Null until a task comes, and in a forked child, which has none of
// its parent's threads: their tasks are done in the parent, and their lock may be held.
std::atomic<SpareThreads*> current{nullptr};

SpareThreads& Current() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
  (void)registered;
  SpareThreads* threads = current.load();
  if (threads != nullptr) return *threads;
  auto made = std::make_unique<SpareThreads>();
  return current.compare_exchange_strong(threads, made.get()) ? *made.release() : *threads;
}

}  // namespace

void RunOnSpareThread(std::function<void()> task) { Current().Run(std::move(task)); }

void AtEndOfSpareThreads(void (*last)()) { g_last.store(last); }

}  // namespace callout::internal
