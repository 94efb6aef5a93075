// SPDX-License-Identifier: Apache-2.0
#include "core/frame/thread_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "testing/fake_runtime.h"
#include "testing/frame_builder.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { EXPECT_EQ(FakeRuntime::live_errors(), 0); }

  XLA_FFI_CallFrame* Frame() { return site_->Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE); }
  // Notes the thread that it runs on; is alive for as long as `alive_` is shared.
  std::function<void()> Task() {
    return [this, alive = alive_] {
      ++runs_;
      ran_on_ = std::this_thread::get_id();
    };
  }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(GetParam());
  std::unique_ptr<FakeSite> site_ = std::make_unique<FakeSite>(runtime_, nullptr, nullptr);
  FrameBuilder builder_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  int runs_ = 0;
  std::thread::id ran_on_;
};

TEST_P(ThreadPoolTest, ThreadsAreCounted) {
  site_->pool_threads = 5;
  EXPECT_EQ(PoolThreads(Frame()), 5);
}

TEST_P(ThreadPoolTest, WithoutAPoolThereAreNoThreadsAndTasksAreDropped) {
  EXPECT_EQ(PoolThreads(Frame()), 0);
  const StatusCode code = GetParam() >= 4 ? StatusCode::kUnimplemented : StatusCode::kInternal;
  EXPECT_THAT(ScheduleOnPool(Frame(), Task()), StatusIs(code, "No thread pool"));
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, RefusedTaskIsDropped) {
  site_->pool_threads = 2;
  site_->pool_mode = PoolMode::kRefuse;
  EXPECT_THAT(ScheduleOnPool(Frame(), Task()),
              StatusIs(GetParam() >= 4 ? StatusCode::kResourceExhausted : StatusCode::kInternal, "The pool is full"));
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, TaskRunsOnceOnAThreadOfThePool) {
  site_->pool_threads = 2;
  ASSERT_THAT(ScheduleOnPool(Frame(), Task()), IsOk());
  site_.reset();  // joins
  EXPECT_EQ(runs_, 1);
  EXPECT_NE(ran_on_, std::this_thread::get_id());
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, TaskMayRunBeforeScheduleReturns) {
  site_->pool_threads = 2;
  site_->pool_mode = PoolMode::kInline;
  ASSERT_THAT(ScheduleOnPool(Frame(), Task()), IsOk());
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(ran_on_, std::this_thread::get_id());
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, TaskMayRunWhenTheCallIsOver) {
  site_->pool_threads = 2;
  site_->pool_mode = PoolMode::kLate;
  ASSERT_THAT(ScheduleOnPool(Frame(), Task()), IsOk());
  const auto tasks = site_->TakeTasks();
  site_.reset();
  builder_ = {};
  EXPECT_EQ(runs_, 0);
  ASSERT_EQ(tasks.size(), 1U);
  tasks[0]();
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(alive_.use_count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Minors, ThreadPoolTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
