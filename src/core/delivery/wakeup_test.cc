// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/wakeup.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "testing/spin.h"

namespace callout::internal {
namespace {

constexpr std::chrono::hours kLong{1};  // longer than any test may run

TEST(WakeupTest, InterruptBeforeANapEndsIt) {
  Wakeup wakeup;
  wakeup.Interrupt();
  wakeup.Nap(kLong);
}

TEST(WakeupTest, InterruptDuringANapEndsIt) {
  Wakeup wakeup;
  std::latch started(1);
  std::thread napper([&] {
    started.count_down();
    wakeup.Nap(kLong);
  });
  started.wait();
  wakeup.Interrupt();
  napper.join();
}

TEST(WakeupTest, InterruptCountsOnce) {
  Wakeup wakeup;
  wakeup.Interrupt();
  wakeup.Nap(kLong);
  bool asked = false;
  wakeup.Sleep([&] { return asked = true; });
  EXPECT_TRUE(asked) << "the interrupt was still pending after the nap";
}

TEST(WakeupTest, SleepEndsAtOnceIfThereIsWork) {
  Wakeup wakeup;
  wakeup.Sleep([] { return true; });
}

TEST(WakeupTest, NotifyWakesASleeper) {
  Wakeup wakeup;
  std::atomic<bool> work{false};
  std::latch asked(1);
  std::thread sleeper([&] {
    bool first = true;
    wakeup.Sleep([&] {
      if (first) asked.count_down();
      first = false;
      return work.load();
    });
  });
  asked.wait();
  work.store(true);
  wakeup.Notify();
  sleeper.join();
}

TEST(WakeupTest, NotifyDoesNotTouchWhoIsAwake) {
  Wakeup wakeup;
  wakeup.Notify();
  bool asked = false;
  wakeup.Sleep([&] { return asked = true; });
  EXPECT_TRUE(asked) << "Notify left an interrupt behind";
}

TEST(WakeupTest, EndNapEndsANapThatHasBegun) {
  Wakeup wakeup;
  std::thread napper([&] { wakeup.Nap(kLong); });
  SpinUntil([&] { return wakeup.rest() == Rest::kNapping; });
  wakeup.Notify();  // is for sleepers
  EXPECT_EQ(wakeup.rest(), Rest::kNapping);
  wakeup.EndNap();
  napper.join();
  EXPECT_EQ(wakeup.rest(), Rest::kAwake);
}

TEST(WakeupTest, EndNapTouchesNeitherWhoIsAwakeNorWhoSleeps) {
  Wakeup wakeup;
  wakeup.EndNap();
  std::atomic<bool> work{false};
  std::thread sleeper([&] {
    wakeup.Sleep([&] { return work.load(); });
    EXPECT_TRUE(work.load()) << "EndNap woke it";
  });
  SpinUntil([&] { return wakeup.rest() == Rest::kSleeping; });
  wakeup.EndNap();
  work.store(true);
  wakeup.Notify();
  sleeper.join();
}

// Each side waits for the other's last step, so a lost wake-up hangs the test.
TEST(WakeupTest, NoWakeupIsLost) {
  Wakeup wakeup;
  std::atomic<int> produced{0};
  std::atomic<int> consumed{0};
  constexpr int kRounds = 2000;
  std::thread consumer([&] {
    while (consumed.load() < kRounds) {
      wakeup.Sleep([&] { return produced.load() > consumed.load(); });
      if (produced.load() > consumed.load()) consumed.fetch_add(1);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    produced.fetch_add(1);
    wakeup.Notify();
    while (consumed.load() <= i) std::this_thread::yield();
  }
  consumer.join();
}

}  // namespace
}  // namespace callout::internal
