// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/embedded_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/callbacks/binding_scope.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::StrEq;

class EmbeddedCodeTest : public ::testing::Test {
 protected:
  void TearDown() override { AllowEmbeddedCode(true); }
  static Status Check() { return CheckEmbeddedCode("the native function 'f'"); }
};

TEST_F(EmbeddedCodeTest, ProcessesMayRefuseIt) {
  EXPECT_THAT(Check(), IsOk());
  AllowEmbeddedCode(false);
  EXPECT_THAT(Check(),
              StatusIs(StatusCode::kFailedPrecondition,
                       StrEq("callout: the program carries the native function 'f', and this process does not run code "
                             "that programs carry (config.embedded_code, CALLOUT_EMBEDDED_CODE)")));
}

TEST_F(EmbeddedCodeTest, CompilationsDecideBeforeTheProcess) {
  const Bindings none;
  {
    BindingScope scope(none);
    AllowEmbeddedCode(false);
    EXPECT_THAT(Check(), StatusIs(StatusCode::kFailedPrecondition, "this process"));
    scope.SetEmbeddedCode(true, false);
    EXPECT_THAT(Check(), IsOk());
    EXPECT_FALSE(BindingScope::RefusedCodeFailsLate());
    AllowEmbeddedCode(true);
    scope.SetEmbeddedCode(false, true);
    EXPECT_THAT(Check(),
                StatusIs(StatusCode::kFailedPrecondition,
                         StrEq("callout: the program carries the native function 'f', and this compilation does not "
                               "allow code that programs carry")));
    EXPECT_TRUE(BindingScope::RefusedCodeFailsLate());
  }
  EXPECT_THAT(Check(), IsOk());
  EXPECT_FALSE(BindingScope::RefusedCodeFailsLate());
}

// A process reads the environment once, so each text needs a process of its own.
TEST(EmbeddedCodeDeathTest, TheEnvironmentIsUnderstoodAsInPython) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exits = [](const char* text) {
    setenv("CALLOUT_EMBEDDED_CODE", text, 1);
    std::_Exit(CheckEmbeddedCode("code").ok() ? 1 : 2);
  };
  for (const char* yes : {"", "1", "true", "On"}) EXPECT_EXIT(exits(yes), ::testing::ExitedWithCode(1), "") << yes;
  for (const char* no : {"0", "False", "off"}) EXPECT_EXIT(exits(no), ::testing::ExitedWithCode(2), "") << no;
  EXPECT_EXIT(exits("maybe"), ::testing::ExitedWithCode(2), "'maybe' is neither true nor false");
}

}  // namespace
}  // namespace callout::internal
