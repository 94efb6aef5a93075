// SPDX-License-Identifier: Apache-2.0
//
// Lock annotations, which Clang's -Wthread-safety checks, and a mutex that has them (libstdc++'s does not).
#pragma once

#include <mutex>
#include <new>

#if defined(__clang__)
#define CALLOUT_ATTRIBUTE(x) __attribute__((x))
#else
#define CALLOUT_ATTRIBUTE(x)
#endif

#define CALLOUT_GUARDED_BY(x) CALLOUT_ATTRIBUTE(guarded_by(x))
/// For a function that takes locks in one call and releases them in another.
#define CALLOUT_NO_THREAD_SAFETY_ANALYSIS CALLOUT_ATTRIBUTE(no_thread_safety_analysis)
#define CALLOUT_REQUIRES(x) CALLOUT_ATTRIBUTE(requires_capability(x))

namespace callout::internal {

class CALLOUT_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() CALLOUT_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() CALLOUT_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  bool try_lock() CALLOUT_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 protected:
  /// Unlocks the mutex in a forked child, where the thread that holds it does not exist.
  void Renew() { new (&mutex_) std::mutex; }

 private:
  std::mutex mutex_;
};

class CALLOUT_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CALLOUT_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() CALLOUT_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace callout::internal
