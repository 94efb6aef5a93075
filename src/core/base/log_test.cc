// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/log_capture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override {
    SetLogHandler(nullptr);
    SetLogLevel(static_cast<int>(LogLevel::kWarning));
  }
};

bool Refuse(LogLevel /*level*/, std::string_view /*message*/, LogSource /*source*/) { return false; }

TEST_F(LogTest, HandlerGetsLevelAndMessage) {
  const LogCapture log;
  Log(LogLevel::kWarning, "careful");
  Log(LogLevel::kError, "too late");
  EXPECT_THAT(log.messages(), ElementsAre("30 careful", "40 too late"));
}

TEST_F(LogTest, MessagesBelowTheLevelAreDropped) {
  const LogCapture log;
  Log(LogLevel::kInfo, "by default, not told");
  EXPECT_THAT(log.messages(), IsEmpty());
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  SetLogLevel(20);
  EXPECT_TRUE(LogEnabled(LogLevel::kInfo));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug));
  Log(LogLevel::kInfo, "told now");
  Log(LogLevel::kDebug, "still not");
  EXPECT_THAT(log.messages(), ElementsAre("20 told now"));
}

TEST_F(LogTest, WithoutAHandlerWholeLinesGoToStderr) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kError, "lost");
  Log(LogLevel::kWarning, "odd");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "callout: ERROR: lost\ncallout: WARNING: odd\n");
}

TEST_F(LogTest, PrefixOfAnErrorIsWrittenOnce) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kError, "callout: callback 'f' failed");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "callout: ERROR: callback 'f' failed\n");
}

TEST_F(LogTest, HandlerThatRefusesLeavesTheMessageToStderr) {
  SetLogHandler(&Refuse);
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kError, "nobody took it");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "callout: ERROR: nobody took it\n");
}

}  // namespace
}  // namespace callout::internal
