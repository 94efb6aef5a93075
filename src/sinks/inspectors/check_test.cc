// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CheckTest : public LiveCountTest {
 protected:
  static std::shared_ptr<Callback> Make(const std::string& payload) {
    auto check = MakeCheck("check", payload);
    EXPECT_THAT(check, IsOk());
    return std::move(check).value();
  }

  static Status Look(Callback& check, std::vector<TestBuffer> buffers, Record record = {},
                     std::vector<std::string> names = {"", "value"}) {
    std::vector<callout_buffer> views;
    for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
    SiteInfo site = {.label = "site", .leaf_names = std::move(names)};
    site.leaf_names.resize(views.size());
    record.site = &site;
    record.buffers = views;
    const bool passes = check.inspector()->Passes(record.buffers);
    Result<Inspector::Send> send = check.inspector()->Inspect(record);
    EXPECT_TRUE(!passes || (send.ok() && *send == Inspector::Send::kNothing)) << "it would not have been inspected";
    if (!send.ok()) return std::move(send).status();
    EXPECT_NE(*send, Inspector::Send::kRecord) << "a check needs no copies";
    return *send == Inspector::Send::kNotice ? check.Deliver(record) : OkStatus();
  }

  static TestBuffer Bools(std::vector<int64_t> dims, const std::vector<uint8_t>& values) {
    return TestBuffer(DType::kBool, std::move(dims), values);
  }

  LogCapture log_;
};

TEST_F(CheckTest, NothingHappensWhereThePredicateIsFalse) {
  const auto check = Make("1;raise;;0;0,0e;{value}");
  for (const int64_t n : {0, 1, 7, 8, 9, 64}) {
    const auto size = static_cast<size_t>(n);
    EXPECT_THAT(
        Look(*check, {Bools({n}, std::vector<uint8_t>(size)), TestBuffer::Of<float>({n}, std::vector<float>(size))}),
        IsOk());
  }
  EXPECT_THAT(log_.messages(), IsEmpty());
}

TEST_F(CheckTest, ItPassesWithoutBeingInspectedWhereThePredicateIsFalse) {
  TestBuffer holds = Bools({9}, std::vector<uint8_t>(9)), fails = Bools({9}, {0, 0, 0, 0, 0, 0, 0, 0, 1});
  TestBuffer number = TestBuffer::Scalar<float>(0);
  const auto passes = [](const std::string& payload, TestBuffer& predicate) {
    const callout_buffer view = predicate.view();
    return Make(payload)->inspector()->Passes({&view, 1});
  };
  for (const std::string action : {"raise", "warn"}) {
    EXPECT_TRUE(passes("1;" + action + ";;0;0;bad", holds));
    EXPECT_FALSE(passes("1;" + action + ";;0;0;bad", fails));
    EXPECT_FALSE(passes("1;" + action + ";;0;0;bad at {step}", holds)) << "its steps are counted";
    EXPECT_FALSE(passes("1;" + action + ";;0;0;bad", number)) << "no predicate";
    EXPECT_FALSE(passes("1;" + action + ";;0;0,0;bad", holds)) << "an array is missing";
    EXPECT_FALSE(passes("1;" + action + ";;2;3;bad", holds)) << "an extent is missing";
  }
}

TEST_F(CheckTest, TheFirstTrueElementIsFoundWhereverItIs) {
  const auto check = Make("1;raise;;0;0;bad");
  for (int64_t n = 1; n < 40; ++n) {
    for (int64_t at = 0; at < n; ++at) {
      std::vector<uint8_t> values(static_cast<size_t>(n));
      values[static_cast<size_t>(at)] = values.back() = 1;
      EXPECT_THAT(Look(*check, {Bools({n}, values)}),
                  StatusIs(StatusCode::kInternal, "check failed: bad (index [" + std::to_string(at) + "], device 0)"));
    }
  }
}

TEST_F(CheckTest, TheTextHasTheElementTheStepTheDeviceAndTheSource) {
  const auto check = Make("1;raise;model.py:7 in f;0;0,0e;{value:.2f} is negative at {index}, step {step}");
  EXPECT_THAT(Look(*check, {Bools({2, 2}, {0, 0, 1, 0}), TestBuffer::Of<float>({2, 2}, {1, 2, -3.25F, 4})},
                   {.device_ordinal = 5, .step = 9}),
              StatusIs(StatusCode::kInternal,
                       "check failed: -3.25 is negative at [1 0], step 9 (index [1,0], step 9, "
                       "device 5; model.py:7 in f)"));
}

TEST_F(CheckTest, StepsAreCountedForEachDeviceWhereNobodyTellsThem) {
  const auto check = Make("1;raise;;0;0;{step}");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Look(*check, {Bools({}, {0})}), IsOk());
  EXPECT_THAT(Look(*check, {Bools({}, {1})}), StatusIs(StatusCode::kInternal, "check failed: 3 (step 3, device 0)"));
  EXPECT_THAT(Look(*check, {Bools({}, {1})}, {.device_ordinal = 1}),
              StatusIs(StatusCode::kInternal, "check failed: 0 (step 0, device 1)"));
  EXPECT_THAT(Look(*check, {Bools({}, {1})}, {.step = 70}),
              StatusIs(StatusCode::kInternal, "check failed: 70 (step 70, device 0)"));
}

TEST_F(CheckTest, AScalarPredicateShowsWholeValues) {
  const auto check = Make("1;raise;;0;0,0;{value}");
  EXPECT_THAT(Look(*check, {Bools({}, {1}), TestBuffer::Of<int32_t>({2}, {7, 8})}),
              StatusIs(StatusCode::kInternal, "check failed: [7 8] (device 0)"));
}

// The predicate has a batch of 3 in a batch of 2; the first value has the inner batch only.
TEST_F(CheckTest, LanesOfValuesAreThoseOfThePredicate) {
  const auto check = Make("1;raise;;2;3,2e,3;{a} {b} {lane}");
  std::vector<uint8_t> predicate(12);
  predicate[(1 * 3 + 2) * 2 + 1] = 1;
  std::vector<int32_t> whole(12);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<int32_t>(i);
  EXPECT_THAT(Look(*check,
                   {Bools({2, 3, 2}, predicate), TestBuffer::Of<int32_t>({3, 2}, {10, 11, 12, 13, 14, 15}),
                    TestBuffer::Of<int32_t>({2, 3, 2}, whole)},
                   {}, {"", "a", "b"}),
              StatusIs(StatusCode::kInternal, "check failed: 15 [10 11] [1 2] (lane (1,2), index [1], device 0)"));
}

TEST_F(CheckTest, APredicateOfAllLanesSaysSo) {
  const auto check = Make("1;raise;;1;0,1e;{value} {lane}");
  EXPECT_THAT(Look(*check, {Bools({}, {1}), TestBuffer::Of<float>({2}, {1, 2})}),
              StatusIs(StatusCode::kInternal, "check failed: [1. 2.] -1 (lane all, device 0)"));
}

TEST_F(CheckTest, PlacesInShardsAreThoseOfTheWhole) {
  const auto check = Make("1;raise;;0;0,0e;{value}");
  const std::vector<int64_t> offsets = {10, 8};
  EXPECT_THAT(Look(*check, {Bools({4}, {0, 1, 0, 0}), TestBuffer::Of<float>({4}, {1, 2, 3, 4})}, {.offsets = offsets}),
              StatusIs(StatusCode::kInternal, "check failed: 4.0 (index [11], device 0)"));
  // The element is on another device.
  const std::vector<int64_t> elsewhere = {10, 0};
  EXPECT_THAT(
      Look(*check, {Bools({4}, {0, 1, 0, 0}), TestBuffer::Of<float>({4}, {1, 2, 3, 4})}, {.offsets = elsewhere}),
      StatusIs(StatusCode::kInternal, "check failed: {value} (index [11], device 0)"));
  // A hostile program may send offsets whose difference overflows.
  const std::vector<int64_t> far = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  EXPECT_THAT(Look(*check, {Bools({4}, {0, 1, 0, 0}), TestBuffer::Of<float>({4}, {1, 2, 3, 4})}, {.offsets = far}),
              StatusIs(StatusCode::kInternal, "check failed: {value} (index [9223372036854775807], device 0)"));
}

TEST_F(CheckTest, WarningsAreLoggedLessAndLessOften) {
  const auto check = Make("1;warn;;0;0;careful");
  for (int i = 0; i < 9; ++i) EXPECT_THAT(Look(*check, {Bools({}, {1})}), IsOk());
  EXPECT_THAT(Look(*check, {Bools({}, {0})}), IsOk());
  EXPECT_THAT(log_.messages(),
              ElementsAre("30 check failed: careful (device 0)", "30 check failed: careful (device 0, 2 times so far)",
                          "30 check failed: careful (device 0, 4 times so far)",
                          "30 check failed: careful (device 0, 8 times so far)"));
}

TEST_F(CheckTest, WhatAProgramSaysOfItsArraysIsCompared) {
  const auto check = Make("1;raise;;1;1,1e;{value}");
  EXPECT_THAT(check->CheckTap(2), IsOk());
  EXPECT_THAT(check->CheckTap(3), StatusIs(StatusCode::kInvalidArgument, "a check of 2 arrays got 3"));
  EXPECT_THAT(Look(*check, {Bools({1}, {1})}), StatusIs(StatusCode::kInvalidArgument, "a check of 2 arrays got 1"));
  EXPECT_THAT(Look(*check, {TestBuffer::Of<float>({1}, {1}), TestBuffer::Of<float>({1}, {1})}),
              StatusIs(StatusCode::kInvalidArgument, "the predicate of a check must be bool, got f32[1]"));
  EXPECT_THAT(Look(*check, {Bools({1}, {1}), TestBuffer::Scalar<float>(1)}),
              StatusIs(StatusCode::kInvalidArgument, "operand 1 of a check, f32[], has fewer dimensions"));
  EXPECT_THAT(Look(*check, {Bools({2}, {0, 1}), TestBuffer(DType::kInt4, {2}, {1})}),
              StatusIs(StatusCode::kInvalidArgument, "packs elements into bytes"));
  EXPECT_THAT(check->Call({}), StatusIs(StatusCode::kFailedPrecondition, "a check looks at taps"));
}

}  // namespace
}  // namespace callout::internal
