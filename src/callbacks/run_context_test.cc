// SPDX-License-Identifier: Apache-2.0
#include "callbacks/run_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(RunContextTest, IsFoundByItsNumberWhileItLives) {
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  auto first = RunContext::Open(one, 0);
  auto second = RunContext::Open(two, 0);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  const int32_t first_id = (*first)->run_id(), second_id = (*second)->run_id();
  EXPECT_NE(first_id, second_id);
  EXPECT_EQ(ContextOfRun(first_id), one.get());
  EXPECT_EQ(ContextOfRun(second_id), two.get());
  EXPECT_EQ(ContextOfRun(7), nullptr);
  (*first).reset();
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_EQ(ContextOfRun(first_id), nullptr);
  EXPECT_EQ(ContextOfRun(second_id), two.get());
}

TEST(RunContextTest, ANumberIsRefusedOnlyWhileItIsTaken) {
  auto first = RunContext::Open(std::make_shared<int>(1), 7);
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(
      RunContext::Open(std::make_shared<int>(2), 7),
      StatusIs(StatusCode::kInvalidArgument,
               "another run with run_id 7 has a context and goes on; leave run_id 0, or give each run its own"));
  (*first).reset();
  EXPECT_THAT(RunContext::Open(std::make_shared<int>(2), 7), IsOk());
}

}  // namespace
}  // namespace callout::internal
