// SPDX-License-Identifier: Apache-2.0
#include "core/base/fork_mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace callout::internal {
namespace {

// Returns the result of `body` in a forked child; -1 if a signal ended it.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang is a failure
    _exit(body());
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Two numbers that are equal whenever nobody holds the lock.
struct Pair {
  ForkMutex mutex;
  int first = 0;
  int second = 0;

  void Count() {
    MutexLock lock(mutex);
    ++first;
    ++second;
  }
  bool IsWhole() {
    MutexLock lock(mutex);
    return first == second;
  }
};

TEST(ForkMutexTest, ChildFindsLocksFreeAndWhatTheyGuardWhole) {
  constexpr int kPairs = 8;
  constexpr int kForks = 40;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < kPairs; ++i) pairs.push_back(std::make_unique<Pair>());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::latch running(4);
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      running.count_down();
      // Each thread takes two locks, in an order that differs from thread to thread: the fork's own order must not
      // matter.
      for (size_t i = t; !stop; ++i) {
        Pair& outer = *pairs[t];
        MutexLock lock(outer.mutex);
        pairs[kPairs - 1 - i % 4]->Count();
        ++outer.first;
        ++outer.second;
      }
    });
  }
  threads.emplace_back([&] {
    running.count_down();
    while (!stop) (void)std::make_unique<Pair>();  // the list of all locks changes
  });
  running.wait();
  for (int i = 0; i < kForks; ++i) {
    const int code = InChild([&] {
      for (const auto& pair : pairs) {
        if (!pair->IsWhole()) return 1;
        pair->Count();
      }
      return std::make_unique<Pair>()->IsWhole() ? 0 : 1;
    });
    ASSERT_EQ(code, 0) << i;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(ForkMutexTest, LockWhoseHolderDoesNotLetGoIsFreeInTheChildAllTheSame) {
  Pair pair;
  pair.mutex.lock();
  std::thread forks([&] { EXPECT_EQ(InChild([&] { return pair.IsWhole() ? 0 : 1; }), 0); });
  forks.join();
  pair.mutex.unlock();
}

TEST(ForkMutexTest, ForkedChildMayFork) {
  Pair pair;
  EXPECT_EQ(InChild([&] { return InChild([&] { return pair.IsWhole() ? 0 : 1; }); }), 0);
}

}  // namespace
}  // namespace callout::internal
