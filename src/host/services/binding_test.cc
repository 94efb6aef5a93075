// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::NotNull;

TEST(BindingTest, NamesMayHaveEqualsSigns) {
  for (const auto& [text, name] :
       {std::pair("a=b=print", "a=b"), std::pair("loss=null", "loss"), std::pair("a=b=jsonl:/dev/null", "a=b"),
        std::pair("a=b=csv:/dev/null", "a=b"), std::pair("a=b=csv,append,columns=a:/dev/null", "a=b"),
        std::pair("a==null", "a="), std::pair("a=b=print:x=print {lib.so:x}", "a=b")}) {
    const auto made = ParseBinding(text);
    ASSERT_THAT(made, IsOk()) << text;
    EXPECT_EQ(made->name(), name);
  }
  EXPECT_THAT(ParseBinding("=print"), StatusIs(StatusCode::kInvalidArgument, "binds nothing"));
  EXPECT_THAT(ParseBinding("a=print:{x"),
              StatusIs(StatusCode::kInvalidArgument, "callout: 'a=print:{x': cannot print"));
  EXPECT_THAT(ParseBinding("a=csv,appends:x"),
              StatusIs(StatusCode::kInvalidArgument, "no option 'appends'; it has path"));
  EXPECT_THAT(BindingForms(),
              AllOf(HasSubstr("NAME=print[:FORMAT], NAME=tensorboard:LOGDIR, "), EndsWith(", or NAME=lib.so:SYMBOL")));
  EXPECT_THAT(ParseBinding("a=b=other"), StatusIs(StatusCode::kNotFound, "'b=other'"));
  EXPECT_THAT(ParseBinding("a=b=./no.so:symbol"), StatusIs(StatusCode::kNotFound, "./no.so"));
}

TEST(BindingTest, TellsWhatNeedsNone) {
  EXPECT_THAT(KindWithoutBinding("progress_clock:"), NotNull());
  EXPECT_THAT(KindWithoutBinding("loss"), IsNull());
}

}  // namespace
}  // namespace callout::pjrt
