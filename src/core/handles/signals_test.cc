// SPDX-License-Identifier: Apache-2.0
#include "core/handles/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

std::atomic<int> g_before{0};

class SignalsTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    g_before = 0;
    signal(SIGUSR1, [](int) { ++g_before; });
  }
  void TearDown() override {
    signal(SIGUSR1, SIG_DFL);
    LiveCountTest::TearDown();
  }

  static std::unique_ptr<SignalScope> Catch(const std::shared_ptr<StopFlag>& flag,
                                            std::vector<int> numbers = {SIGUSR1}) {
    return SignalScope::Make(std::move(numbers), flag).value();
  }

  const std::shared_ptr<StopFlag> flag_ = std::make_shared<StopFlag>();
};

TEST_F(SignalsTest, FirstSignalSetsTheFlagAndTheSecondDoesAsBefore) {
  const auto scope = Catch(flag_);
  raise(SIGUSR1);
  EXPECT_TRUE(flag_->IsSet());
  EXPECT_EQ(g_before, 0);
  raise(SIGUSR1);
  EXPECT_EQ(g_before, 1);
  flag_->Clear();
  raise(SIGUSR1);
  EXPECT_TRUE(flag_->IsSet());
  EXPECT_EQ(g_before, 1);
}

TEST_F(SignalsTest, EndPutsBackWhatTheSignalDid) {
  Catch(flag_).reset();
  raise(SIGUSR1);
  EXPECT_FALSE(flag_->IsSet());
  EXPECT_EQ(g_before, 1);
}

TEST_F(SignalsTest, InnermostFlagThatIsNotSetTakesTheSignal) {
  const auto inner_flag = std::make_shared<StopFlag>();
  auto outer = Catch(flag_);
  auto inner = Catch(inner_flag);
  raise(SIGUSR1);
  EXPECT_TRUE(inner_flag->IsSet());
  EXPECT_FALSE(flag_->IsSet());
  raise(SIGUSR1);
  EXPECT_TRUE(flag_->IsSet());
  raise(SIGUSR1);
  EXPECT_EQ(g_before, 1);
  flag_->Clear();
  outer.reset();
  raise(SIGUSR1);
  EXPECT_FALSE(flag_->IsSet()) << "scopes may end in any order";
  EXPECT_EQ(g_before, 2);
}

TEST_F(SignalsTest, HandlerThatSomebodyElseHasInstalledStays) {
  auto scope = Catch(flag_);
  static std::atomic<int> others{0};
  signal(SIGUSR1, [](int) { ++others; });
  scope.reset();
  raise(SIGUSR1);
  EXPECT_EQ(others, 1);
  EXPECT_EQ(g_before, 0);
}

TEST_F(SignalsTest, SignalOfAnyThreadSetsTheFlag) {
  const auto scope = Catch(flag_);
  std::thread([] { raise(SIGUSR1); }).join();
  EXPECT_TRUE(flag_->IsSet());
}

TEST_F(SignalsTest, ForkedChildDoesAsBefore) {
  const auto scope = Catch(flag_);
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGUSR1);
    _exit(g_before == 1 && !flag_->IsSet() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(SignalsTest, DefaultActionEndsTheProcessAtTheSecondSignal) {
  // The test needs its own process: if other threads ran before a fork, ThreadSanitizer never runs the second handler.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        signal(SIGTERM, SIG_DFL);
        const auto scope = Catch(flag_, {SIGTERM});
        raise(SIGTERM);
        if (!flag_->IsSet()) _exit(1);
        alarm(60);
        raise(SIGTERM);
        for (;;) pause();  // a sanitizer may run handlers later than `raise` returns
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST_F(SignalsTest, SignalThatCannotBeCaughtIsRefusedAndTheOthersAreAsBefore) {
  for (const int number : {SIGKILL, 0, 1000}) {
    const auto scope = SignalScope::Make({SIGUSR1, number}, flag_);
    EXPECT_THAT(scope, StatusIs(StatusCode::kInvalidArgument, "callout: StopFlag: signal " + std::to_string(number) +
                                                                  " cannot be caught: Invalid argument"));
  }
  raise(SIGUSR1);
  EXPECT_EQ(g_before, 1);
}

}  // namespace
}  // namespace callout::internal
