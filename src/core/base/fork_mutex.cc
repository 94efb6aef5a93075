// SPDX-License-Identifier: Apache-2.0
#include "core/base/fork_mutex.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace callout::internal {

using std::chrono::steady_clock;

// A fork only tries to lock, so the order in which other threads take the locks does not matter: between attempts the
// fork releases all locks, and a thread that holds one and wants another gets it.
struct ForkLocks {
  // A fork goes on without a lock whose holder does not release it. Sanitizers stop their allocator before they call
  // this code, and with the allocator they stop threads that hold such locks.
  static constexpr std::chrono::seconds kPatience{1};
  static constexpr std::chrono::microseconds kPause{50};
  static constexpr int kTries = 1000;

  std::mutex list_mutex;  // guards `all`; tried and released like the others
  std::vector<ForkMutex*> all;
  bool holds_list = false;
  std::vector<ForkMutex*> held;  // locks that the forking thread holds
  std::vector<ForkMutex*> lost;  // locks whose holders did not release them

  static ForkLocks& Get() {
    static ForkLocks* const locks = [] {
      (void)pthread_atfork([] { Get().Take(); }, [] { Get().Release(); }, [] { Get().ReleaseInChild(); });
      return new ForkLocks;  // leaked: a process may fork until it ends
    }();
    return *locks;
  }

  template <typename Lock>
  static bool TryFor(int tries, Lock& mutex) CALLOUT_NO_THREAD_SAFETY_ANALYSIS {
    while (!mutex.try_lock()) {
      if (--tries <= 0) return false;
      sched_yield();
    }
    return true;
  }

  // Takes the locks in the list's order, until one cannot be taken. Returns whether all were taken.
  bool TakeAll() CALLOUT_NO_THREAD_SAFETY_ANALYSIS {
    holds_list = TryFor(kTries, list_mutex);
    if (!holds_list) return false;
    for (ForkMutex* mutex : all) {
      if (!TryFor(kTries, *mutex)) return false;
      held.push_back(mutex);
    }
    return true;
  }

  void TakeTheRest() CALLOUT_NO_THREAD_SAFETY_ANALYSIS {
    if (!holds_list) return;
    for (size_t i = held.size(); i < all.size(); ++i) {
      if (all[i]->try_lock()) {
        held.push_back(all[i]);
      } else {
        lost.push_back(all[i]);
      }
    }
  }

  void Release() CALLOUT_NO_THREAD_SAFETY_ANALYSIS {
    for (ForkMutex* mutex : held) mutex->unlock();
    held.clear();
    lost.clear();
    if (holds_list) list_mutex.unlock();
    holds_list = false;
  }

  void Take() {
    const auto deadline = steady_clock::now() + kPatience;
    while (!TakeAll()) {
      if (steady_clock::now() >= deadline) return TakeTheRest();
      Release();
      std::this_thread::sleep_for(kPause);
    }
  }

  // The data of a lost lock may be inconsistent, but leaving the lock locked would certainly hang the child.
  void ReleaseInChild() {
    if (!holds_list) {
      new (&list_mutex) std::mutex;
      lost = all;
    }
    for (ForkMutex* mutex : lost) mutex->Renew();
    Release();
  }
};

ForkMutex::ForkMutex() {
  ForkLocks& locks = ForkLocks::Get();
  const std::lock_guard lock(locks.list_mutex);
  locks.all.push_back(this);
}

ForkMutex::~ForkMutex() {
  ForkLocks& locks = ForkLocks::Get();
  const std::lock_guard lock(locks.list_mutex);
  std::erase(locks.all, this);
}

}  // namespace callout::internal
