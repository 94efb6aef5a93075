// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sinks/each_sink_kind.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SinkOption kOptionsForTest[] = {
    {"path", OptionType::kPath, "", ""},         {"on", OptionType::kFlag, "true", ""},
    {"off", OptionType::kFlag, "false", ""},     {"number", OptionType::kInteger, "none", "", 1, 9},
    {"edges", OptionType::kNumbers, "none", ""}, {"names", OptionType::kTexts, "none", ""},
};
constexpr SinkKind kKindForTest = {
    .name = "reel",
    .options = kOptionsForTest,
    .has_main = true,
    .is_for_hosts = false,
    .make = [](const std::string& label, const SinkOptions& options) -> Result<std::shared_ptr<Callback>> {
      if (options.Flag("off")) return InvalidArgument(label + " is off");
      return MakeSink(label, NullKind(), {});
    }};

Status CheckOf(SinkOptions::Given given) { return SinkOptions::Check(kKindForTest, std::move(given)).status(); }

TEST(SinkOptionsTest, WhatIsNotGivenIsTheDefault) {
  const auto options = SinkOptions::Check(kKindForTest, {{"path", "a"}});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->Text("path", ""), "a");
  EXPECT_TRUE(options->Flag("on"));
  EXPECT_FALSE(options->Flag("off"));
  EXPECT_FALSE(options->Has("number"));
  EXPECT_EQ(options->Integer("number", 7), 7);
  EXPECT_THAT(options->Numbers("edges"), IsEmpty());
  EXPECT_THAT(options->Texts("names"), IsEmpty());
}

TEST(SinkOptionsTest, ListsAreGivenOnceForEach) {
  const auto options = SinkOptions::Check(
      kKindForTest,
      {{"edges", "-1.5"}, {"names", "b"}, {"path", "a"}, {"edges", "inf"}, {"names", ""}, {"on", "false"}});
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->Numbers("edges"), ElementsAre(-1.5, HUGE_VAL));
  EXPECT_THAT(options->Texts("names"), ElementsAre("b", ""));
  EXPECT_FALSE(options->Flag("on"));
}

TEST(SinkOptionsTest, WhatTheKindDoesNotHaveIsAnErrorWithWhatItHas) {
  EXPECT_THAT(CheckOf({{"path", "a"}, {"of", "true"}}),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout: the sink 'reel' has no option 'of'; it has path, on, off, number, edges, names"));
  EXPECT_THAT(SinkOptions::Check(NullKind(), {{"x", "1"}}).status(),
              StatusIs(StatusCode::kInvalidArgument, "it has none"));
  EXPECT_THAT(CheckOf({{"path", "a"}, {"path", "b"}}), StatusIs(StatusCode::kInvalidArgument, "takes its 'path' once"));
  for (const SinkOptions::Given& given : {SinkOptions::Given{}, {{"path", ""}}, {{"on", "true"}}}) {
    EXPECT_THAT(CheckOf(given), StatusIs(StatusCode::kInvalidArgument, "needs its 'path'"));
  }
}

TEST(SinkOptionsTest, ValuesAreOfTheirTypes) {
  for (const auto& [name, value, expected] : {std::tuple("on", "True", "expects true or false as 'on', got 'True'"),
                                              {"on", "", "true or false"},
                                              {"number", "0", "expects an integer from 1 to 9 as 'number', got '0'"},
                                              {"number", "10", "from 1 to 9"},
                                              {"number", "1.5", "from 1 to 9"},
                                              {"number", "99999999999999999999", "from 1 to 9"},
                                              {"number", "", "from 1"},
                                              {"edges", "1,2", "expects a number as 'edges', got '1,2'"},
                                              {"edges", "", "a number"}}) {
    EXPECT_THAT(CheckOf({{"path", "a"}, {name, value}}), StatusIs(StatusCode::kInvalidArgument, expected)) << value;
  }
}

using SinkKindTest = LiveCountTest;

TEST_F(SinkKindTest, MakersGetWhatWasChecked) {
  EXPECT_THAT(MakeSink("loss", kKindForTest, {{"path", "a"}}), IsOk());
  EXPECT_THAT(MakeSink("loss", kKindForTest, {}).status(), StatusIs(StatusCode::kInvalidArgument, "needs its 'path'"));
  EXPECT_THAT(MakeSink("loss", kKindForTest, {{"path", "a"}, {"off", "true"}}).status(),
              StatusIs(StatusCode::kInvalidArgument, "loss is off"));
}

}  // namespace
}  // namespace callout::internal
