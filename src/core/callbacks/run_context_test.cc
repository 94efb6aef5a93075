// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/run_context.h"

#include <gtest/gtest.h>

#include <memory>

namespace callout::internal {
namespace {

TEST(RunContextTest, IsFoundByTheNumberOfItsLaunchWhileItLives) {
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  auto first = std::make_unique<RunContext>(one, 0);
  const RunContext second(two, 7);
  const int32_t first_id = first->launch_id();
  EXPECT_NE(first_id, second.launch_id());
  EXPECT_EQ(FindRun(first_id).context, one.get());
  EXPECT_EQ(FindRun(first_id).id, first_id);
  EXPECT_EQ(FindRun(second.launch_id()).context, two.get());
  EXPECT_EQ(FindRun(second.launch_id()).id, 7);
  EXPECT_EQ(FindRun(7).context, nullptr) << "a run without a context, which its host calls the same";
  EXPECT_EQ(FindRun(7).id, 7);
  first.reset();
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_EQ(FindRun(first_id).context, nullptr);
  EXPECT_EQ(FindRun(second.launch_id()).context, two.get());
}

TEST(RunContextTest, TwoRunsMayHaveOneNumberOfTheirHosts) {
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  const RunContext first(one, -5), second(two, -5);
  EXPECT_TRUE(RunContext::IsLaunchId(first.launch_id()));
  EXPECT_EQ(FindRun(first.launch_id()).context, one.get());
  EXPECT_EQ(FindRun(second.launch_id()).context, two.get());
  EXPECT_EQ(FindRun(first.launch_id()).id, -5);
}

}  // namespace
}  // namespace callout::internal
