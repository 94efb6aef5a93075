// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/failures.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(FailuresTest, NumberLeadsToTheFailure) {
  const int32_t first = KeepFailure(InvalidArgument("first"));
  const int32_t second = KeepFailure(NotFound("second"));
  EXPECT_GT(first, 0);
  EXPECT_NE(first, second);
  EXPECT_THAT(*FindFailure(first), StatusIs(StatusCode::kInvalidArgument, "first"));
  EXPECT_THAT(*FindFailure(second), StatusIs(StatusCode::kNotFound, "second"));
  EXPECT_THAT(*FindFailure(first), StatusIs(StatusCode::kInvalidArgument, "first")) << "asked twice";
}

TEST(FailuresTest, UnknownNumberIsNotThere) {
  const int32_t number = KeepFailure(InternalError("x"));
  EXPECT_FALSE(FindFailure(number ^ (1 << 20)).has_value()) << "a number of another process in the same slot";
  EXPECT_FALSE(FindFailure(-5).has_value());
}

TEST(FailuresTest, OldOnesMakeRoom) {
  const int32_t old = KeepFailure(InternalError("old"));
  for (int i = 0; i < 256; ++i) KeepFailure(InternalError("new"));
  EXPECT_FALSE(FindFailure(old).has_value());
}

TEST(FailuresTest, ThreadsGetNumbersOfTheirOwn) {
  std::vector<int32_t> numbers(4);
  std::vector<std::thread> threads;
  for (int32_t& number : numbers) threads.emplace_back([&number] { number = KeepFailure(InternalError("x")); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<int32_t>(numbers.begin(), numbers.end()).size(), 4U);
}

}  // namespace
}  // namespace callout::internal
