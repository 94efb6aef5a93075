// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/located_nans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/special_floats.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LocatedNansTest : public LiveCountTest {
 protected:
  static std::shared_ptr<Callback> Make(const std::string& payload) {
    auto nans = MakeLocatedNans("nans", payload);
    EXPECT_THAT(nans, IsOk());
    return std::move(nans).value();
  }

  static Status Look(Callback& nans, std::vector<TestBuffer> buffers, Record record = {}) {
    std::vector<callout_buffer> views;
    views.reserve(buffers.size());
    for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
    SiteInfo site = {.label = "site", .leaf_names = std::vector<std::string>(views.size())};
    record.site = &site;
    record.buffers = views;
    const bool passes = nans.inspector()->Passes(record.buffers);
    Result<Inspector::Send> send = nans.inspector()->Inspect(record);
    EXPECT_FALSE(passes && !send.ok()) << "it would not have been inspected";
    if (!send.ok()) return std::move(send).status();
    EXPECT_EQ(*send, Inspector::Send::kNothing) << "nothing is to be delivered";
    return OkStatus();
  }

  static TestBuffer Floats(const std::vector<float>& values) {
    return TestBuffer::Of<float>({static_cast<int64_t>(values.size())}, values);
  }

  // Returns a number that no other test uses, because findings are kept by run.
  static int64_t NewRun() {
    static int64_t run = 1000;
    return ++run;
  }

  LogCapture log_;
};

TEST_F(LocatedNansTest, FiniteResultsAndThoseOfBadInputsAreNotReported) {
  const auto nans = Make("1;raise;ni;forward;0;0;0,0;0;log;1;0;m.py:3 in f;y = log(x);");
  EXPECT_THAT(Look(*nans, {Floats({1, 2}), Floats({kNan, kInf})}, {.run_id = NewRun()}), IsOk());
  EXPECT_THAT(Look(*nans, {Floats({1, kNan}), Floats({1, kNan})}, {.run_id = NewRun()}), IsOk());
  EXPECT_THAT(Look(*nans, {Floats({1, kInf}), Floats({1, kInf})}, {.run_id = NewRun()}), IsOk());
  EXPECT_THAT(log_.messages(), IsEmpty());
}

TEST_F(LocatedNansTest, ItPassesWithoutBeingInspectedWhereResultsAreFinite) {
  const auto nans = Make("1;raise;ni;forward;0;0;0,0;0;log;1;0;m.py:3 in f;y = log(x);");
  const auto passes = [&](float result) {
    TestBuffer output = Floats({1, result}), input = Floats({1, kNan});
    const callout_buffer views[] = {output.view(), input.view()};
    return std::pair(nans->inspector()->Passes(views), nans->inspector()->Passes({views, 1}));
  };
  EXPECT_EQ(passes(2), std::pair(true, false)) << "with its input, without";
  EXPECT_EQ(passes(kInf), std::pair(false, false));
}

TEST_F(LocatedNansTest, TheTextHasEverything) {
  const auto nans = Make("1;raise;ni;backward;0;0;0,0,0,0;0;log;1;2;m.py:3 in f;y = log(x%2C 1)%3B;net/dense");
  EXPECT_THAT(Look(*nans,
                   {TestBuffer::Of<float>({2, 2}, {1, 2, kNan, kInf}), TestBuffer::Of<float>({2, 2}, {1, 2, -3, 4}),
                    TestBuffer::Scalar<int32_t>(5), TestBuffer::Scalar<int32_t>(7)},
                   {.device_ordinal = 3, .run_id = NewRun()}),
              StatusIs(StatusCode::kInternal,
                       "locate_nans: NaN at m.py:3 in f: `y = log(x, 1);`; log, backward, in net/dense; f32[2,2] at "
                       "[1,0], step (5,7), device 3; inputs: f32[2,2] -3.0"));
}

TEST_F(LocatedNansTest, NanOfInfiniteInputsIsReportedUnlessWhatMadeThemWas) {
  const auto makes = Make("1;raise;ni;forward;0;0;0,0;0;exp;1;0;m.py:1;;");
  const auto takes = Make("1;raise;ni;forward;1;0;0,0;0;sub;1;0;m.py:2;;");
  const auto back = Make("1;raise;ni;backward;2;0;0,0;0;mul;1;0;m.py:1;;");
  const int64_t alone = NewRun();
  EXPECT_THAT(Look(*takes, {Floats({kNan}), Floats({kInf})}, {.run_id = alone}),
              StatusIs(StatusCode::kInternal, "sub, forward, out of infinite inputs"));
  const int64_t both = NewRun();
  EXPECT_THAT(Look(*makes, {Floats({kInf}), Floats({1000})}, {.run_id = both}),
              StatusIs(StatusCode::kInternal, "infinity at m.py:1"));
  EXPECT_THAT(Look(*takes, {Floats({kNan}), Floats({kInf})}, {.run_id = both}), IsOk());
  EXPECT_THAT(Look(*back, {Floats({kNan}), Floats({kInf})}, {.run_id = both}),
              StatusIs(StatusCode::kInternal, "mul, backward, out of infinite inputs"));
}

TEST_F(LocatedNansTest, InfinitiesMayNotCount) {
  const auto nans = Make("1;raise;n;forward;0;0;0,0;0;log;1;0;m.py:3;;");
  EXPECT_THAT(Look(*nans, {Floats({kInf}), Floats({0})}, {.run_id = NewRun()}), IsOk());
  EXPECT_THAT(Look(*nans, {Floats({kInf, kNan}), Floats({0, -1})}, {.run_id = NewRun()}),
              StatusIs(StatusCode::kInternal, "NaN at m.py:3: ``; log, forward; f32[2] at [1]"));
}

// The result has a batch of 2 in a batch of 2; the input has the inner batch only. The second inner lane is not alive
// in the first outer lane.
TEST_F(LocatedNansTest, LanesAreLookedAtByThemselves) {
  const auto nans = Make("1;raise;ni;forward;0;2;3,3,2,2;1;log;1;1;m.py:3;;");
  const auto look = [&](const std::vector<float>& results, const std::vector<float>& inputs) {
    return Look(*nans,
                {TestBuffer(DType::kBool, {2, 2}, {1, 0, 1, 1}), TestBuffer::Of<float>({2, 2, 1}, results),
                 TestBuffer::Of<float>({2, 1}, inputs), TestBuffer::Of<int32_t>({2}, {8, 9})},
                {.run_id = NewRun()});
  };
  EXPECT_THAT(look({1, kNan, 1, 1}, {1, 1}), IsOk());
  EXPECT_THAT(look({kNan, kNan, kNan, 1}, {kNan, 1}), IsOk());
  EXPECT_THAT(look({kNan, kNan, 1, kNan}, {kNan, -1}),
              StatusIs(StatusCode::kInternal, "f32[1] at [0], lane (1,1), step 9, device 0; inputs: f32[1] -1.0"));
}

TEST_F(LocatedNansTest, PlacesInShardsAreThoseOfTheWholeAndWhatFollowsOnOthersIsNotReported) {
  const auto first = Make("1;raise;ni;forward;4;0;0,0;0;log;1;0;m.py:1;;");
  const auto later = Make("1;raise;ni;forward;5;0;0,0;0;dot;1;0;m.py:2;;");
  const std::vector<int64_t> offsets = {10, 10};
  const int64_t run = NewRun();
  EXPECT_THAT(Look(*first, {Floats({1, kNan}), Floats({1, -1})}, {.offsets = offsets, .run_id = run}),
              StatusIs(StatusCode::kInternal, "f32[2] at [11], device 0, the shard from [10]"));
  EXPECT_THAT(Look(*later, {Floats({kNan}), Floats({1})}, {.offsets = offsets, .device_ordinal = 1, .run_id = run}),
              IsOk());
  EXPECT_THAT(Look(*later, {Floats({kNan}), Floats({1})}, {.device_ordinal = 1, .run_id = run}),
              StatusIs(StatusCode::kInternal, "NaN at m.py:2"));
}

// This device has lanes 4 to 7 of the result, and all lanes of the operand or the first four.
TEST_F(LocatedNansTest, LanesOfShardsAreThoseOfTheWholeWhereverOperandsAre) {
  const auto nans = Make("1;raise;ni;forward;0;1;1,1;0;log;1;0;m.py:3;;");
  const std::vector<int64_t> offsets = {4, 0};
  const TestBuffer result = Floats({1, kNan, 1, 1});
  const auto look = [&](const std::vector<float>& operand) {
    return Look(*nans, {result, Floats(operand)}, {.offsets = offsets, .run_id = NewRun()});
  };
  EXPECT_THAT(look({1, 2, 3, 4, 5, -6, 7, 8}),
              StatusIs(StatusCode::kInternal, "f32[] at [], lane 5, device 0; inputs: f32[] -6.0"));
  EXPECT_THAT(look({1, 2, 3, 4, 5, kNan, 7, 8}), IsOk());
  EXPECT_THAT(look({1, kNan, 3, 4}),
              StatusIs(StatusCode::kInternal, "lane 5, device 0; inputs: one that is on another device"));
}

TEST_F(LocatedNansTest, WhatFollowsGoesForwardAndThenBackward) {
  const auto forward = Make("1;raise;ni;forward;7;0;0,0;0;log;1;0;m.py:1;;");
  const auto backward = Make("1;raise;ni;backward;5;0;0,0;0;mul;1;0;m.py:2;;");
  const std::vector<int64_t> offsets = {0, 0};
  const auto look = [&](Callback& nans, int32_t device, int64_t run) {
    return Look(nans, {Floats({kNan}), Floats({1})}, {.offsets = offsets, .device_ordinal = device, .run_id = run});
  };
  const int64_t run = NewRun(), other = NewRun();
  EXPECT_THAT(look(*forward, 0, run), StatusIs(StatusCode::kInternal, "m.py:1"));
  EXPECT_THAT(look(*backward, 1, run), IsOk());
  EXPECT_THAT(look(*backward, 0, other), StatusIs(StatusCode::kInternal, "m.py:2"));
  EXPECT_THAT(look(*forward, 1, other), StatusIs(StatusCode::kInternal, "m.py:1"));
}

TEST_F(LocatedNansTest, ReportsAreLoggedOnceARunWhereNobodyTakesThem) {
  const auto nans = Make("1;warn;ni;forward;0;0;0,0;0;log;1;0;m.py:3;;");
  for (const int64_t run : {NewRun(), NewRun()}) {
    for (int i = 0; i < 3; ++i) EXPECT_THAT(Look(*nans, {Floats({kNan}), Floats({-1})}, {.run_id = run}), IsOk());
  }
  EXPECT_THAT(log_.messages(), AllOf(SizeIs(2), ::testing::Each(HasSubstr("30 locate_nans: NaN at m.py:3"))));
}

TEST_F(LocatedNansTest, WhoTakesReportsMayRefuseThem) {
  static std::vector<std::string>* const places = new std::vector<std::string>;
  SetLocatedNansReporter([](std::string_view place, std::string_view /*text*/) {
    places->emplace_back(place);
    return places->size() == 1 ? Reported::kTaken : Reported::kRefused;
  });
  const auto nans = Make("1;warn;ni;forward;0;0;0,0;0;log;1;0;m.py:3 in f;;");
  EXPECT_THAT(Look(*nans, {Floats({kNan}), Floats({-1})}, {.run_id = NewRun()}), IsOk());
  EXPECT_THAT(Look(*nans, {Floats({kNan}), Floats({-1})}, {.run_id = NewRun()}),
              StatusIs(StatusCode::kInternal, "NaN at m.py:3 in f"));
  SetLocatedNansReporter(nullptr);
  EXPECT_THAT(*places, ElementsAre("m.py:3 in f", "m.py:3 in f"));
  EXPECT_THAT(log_.messages(), IsEmpty());
}

TEST_F(LocatedNansTest, WhatAProgramSaysOfItsArraysIsCompared) {
  const auto nans = Make("1;raise;ni;forward;0;1;1,1,1,0;1;log;1;1;m.py:3;;");
  const TestBuffer live(DType::kBool, {1}, {1});
  const TestBuffer step = TestBuffer::Scalar<int32_t>(0);
  EXPECT_THAT(nans->CheckTap(3), StatusIs(StatusCode::kInvalidArgument, "of 4 arrays got 3"));
  EXPECT_THAT(Look(*nans, {live, Floats({kNan}), TestBuffer::Scalar<float>(1), step}),
              StatusIs(StatusCode::kInvalidArgument, "operand 2 of locate_nans, f32[], has fewer dimensions"));
  EXPECT_THAT(Look(*nans, {Floats({1}), Floats({kNan}), Floats({1}), step}),
              StatusIs(StatusCode::kInvalidArgument, "must be bool, one a lane, got f32[1]"));
  EXPECT_THAT(Look(*nans, {TestBuffer(DType::kBool, {1, 0}, {}), Floats({kNan}), Floats({1}), step}),
              StatusIs(StatusCode::kInvalidArgument, "must be bool, one a lane, got bool[1,0]"));
  EXPECT_THAT(Look(*nans, {live, Floats({kNan}), Floats({1}), TestBuffer::Scalar<float>(1)}),
              StatusIs(StatusCode::kInvalidArgument, "must be an integer, got f32[]"));
  EXPECT_THAT(Look(*nans, {live, Floats({kNan}), TestBuffer(DType::kInt4, {1}, {1}), step}),
              StatusIs(StatusCode::kInvalidArgument, "packs elements into bytes"));
  EXPECT_THAT(nans->Call({}), StatusIs(StatusCode::kFailedPrecondition, "looks at taps"));
}

TEST_F(LocatedNansTest, MoreLanesThanANumberTellsAreRefused) {
  std::string masks = "0";
  std::vector<TestBuffer> buffers = {Floats({kNan})};
  for (int i = 0; i < 16; ++i) {  // 16 operands for each extent: 2^64 lanes.
    masks += "," + std::to_string(1 << i);
    buffers.push_back(Floats(std::vector<float>(16)));
  }
  const auto nans = Make("1;raise;ni;forward;0;16;" + masks + ";0;log;16;0;m.py:3;;");
  EXPECT_THAT(Look(*nans, std::move(buffers), {.run_id = NewRun()}),
              StatusIs(StatusCode::kInvalidArgument, "locate_nans has more lanes than 2^63 - 1"));
}

// Each lane has a bad result, and a bad input that keeps the result from being reported.
TEST_F(LocatedNansTest, NoMoreLanesAreExaminedThanOperandsHold) {
  const auto empty = Make("1;raise;ni;forward;0;1;0,0,1;0;log;2;0;m.py:3;;");
  const TestBuffer many(DType::kFloat32, {std::numeric_limits<int64_t>::max(), 0}, {});
  EXPECT_THAT(Look(*empty, {Floats({kNan}), Floats({kNan}), many}, {.run_id = NewRun()}), IsOk());

  std::string masks = "0,0";
  std::vector<TestBuffer> buffers = {Floats({kNan}), Floats({kNan})};
  for (int i = 0; i < 12; ++i) {  // 2^60 lanes.
    masks += "," + std::to_string(1 << i);
    buffers.push_back(Floats(std::vector<float>(32)));
  }
  const auto each = Make("1;raise;ni;forward;0;12;" + masks + ";0;log;13;0;m.py:3;;");
  EXPECT_THAT(Look(*each, std::move(buffers), {.run_id = NewRun()}), IsOk());
}

TEST_F(LocatedNansTest, OperandsHaveTheSameLanes) {
  const auto nans = Make("1;raise;ni;forward;0;1;1,1;0;log;1;0;m.py:3;;");
  EXPECT_THAT(Look(*nans, {Floats({1, 1, kNan}), Floats({1})}, {.run_id = NewRun()}),
              StatusIs(StatusCode::kInvalidArgument, "operand 1 of locate_nans, f32[1], has other lanes"));
}

struct BadPlace {
  std::string payload;
  std::string why;
};

class BadPlaceTest : public ::testing::TestWithParam<BadPlace> {};

TEST_P(BadPlaceTest, IsRefused) {
  EXPECT_THAT(ParseLocatedNans(GetParam().payload).status(), StatusIs(StatusCode::kInvalidArgument, GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Payloads, BadPlaceTest,
    ::testing::Values(BadPlace{"", "with 14 fields"}, BadPlace{"1;raise;ni;forward;0;0;0,0;0;log;1;0;;", "14 fields"},
                      BadPlace{"2;raise;ni;forward;0;0;0,0;0;log;1;0;;;", "of the format 1, got '2'"},
                      BadPlace{"1;shout;ni;forward;0;0;0,0;0;log;1;0;;;", "with 'raise' or 'warn', got 'shout'"},
                      BadPlace{"1;raise;i;forward;0;0;0,0;0;log;1;0;;;", "with 'n' or 'ni', got 'i'"},
                      BadPlace{"1;raise;ni;up;0;0;0,0;0;log;1;0;;;", "with 'forward' or 'backward', got 'up'"},
                      BadPlace{"1;raise;ni;forward;-1;0;0,0;0;log;1;0;;;", "with order of 0 to 4611686018427387904"},
                      BadPlace{"1;raise;ni;forward;0;17;0,0;0;log;1;0;;;", "with extents of 0 to 16"},
                      BadPlace{"1;raise;ni;forward;0;1;0,2;0;log;1;0;;;",
                               "with a mask of 1 extents for each of 2 operands"},
                      BadPlace{"1;raise;ni;forward;0;0;0,0;2;log;1;0;;;", "with live of 0 to 1"},
                      BadPlace{"1;raise;ni;forward;0;0;0,0;0;l%4;1;0;;;", "two digits"},
                      BadPlace{"1;raise;ni;forward;0;0;0,0;0;log;99999;0;;;", "with inputs of 0 to 16384"},
                      BadPlace{"1;raise;ni;forward;0;0;0,0;0;log;1;x;;;", "with steps of 0 to 16384"},
                      BadPlace{"1;raise;ni;forward;0;0;0;0;log;1;0;;;", "a mask of 0 extents for each of 2 operands"},
                      BadPlace{"1;raise;ni;forward;0;0;0,0;0;log;1;0;%;;", "two digits"},
                      BadPlace{std::string(1 << 21, ';'), "at most 1 MiB"}));

}  // namespace
}  // namespace callout::internal
