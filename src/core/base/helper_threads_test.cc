// SPDX-License-Identifier: Apache-2.0
#include "core/base/helper_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>

namespace callout::internal {
namespace {

TEST(HelperThreadsTest, TasksThatWaitForEachOtherAllRun) {
  constexpr int kTasks = 16;
  for (int round = 0; round < 3; ++round) {
    auto together = std::make_shared<std::latch>(kTasks + 1);
    for (int i = 0; i < kTasks; ++i) RunOnHelperThread([together] { together->arrive_and_wait(); });
    together->arrive_and_wait();
  }
}

TEST(HelperThreadsTest, TaskMayHaveOthersRun) {
  auto done = std::make_shared<std::latch>(1);
  RunOnHelperThread([done] { RunOnHelperThread([done] { done->count_down(); }); });
  done->wait();
}

TEST(HelperThreadsTest, WhatATaskHoldsIsReleasedWhenItIsDone) {
  struct Held {
    explicit Held(std::latch& latch) : gone(latch) {}
    ~Held() { gone.count_down(); }
    std::latch& gone;
  };
  std::latch gone(1);
  RunOnHelperThread([held = std::make_shared<Held>(gone)] {});
  gone.wait();
}

// This takes the seconds for which a thread stays idle.
TEST(HelperThreadsTest, AThreadTellsItsEndOnItself) {
  static std::atomic<pthread_t> worked;
  static std::latch ended(1);
  AtEndOfHelperThreads([] {
    if (pthread_equal(pthread_self(), worked.load()) != 0) ended.count_down();
  });
  auto done = std::make_shared<std::latch>(1);
  RunOnHelperThread([done] {
    worked.store(pthread_self());
    done->count_down();
  });
  done->wait();
  ended.wait();
  AtEndOfHelperThreads(nullptr);
}

// The child must not count its parent's idle threads.
TEST(HelperThreadsTest, TasksRunInAForkedChild) {
  auto parked = std::make_shared<std::latch>(1);
  RunOnHelperThread([parked] { parked->count_down(); });
  parked->wait();
  for (int i = 0; i < 20; ++i) {  // in most rounds the thread is idle
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a hang is a failure
      auto done = std::make_shared<std::latch>(1);
      RunOnHelperThread([done] { done->count_down(); });
      done->wait();
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << i;
  }
}

}  // namespace
}  // namespace callout::internal
