// SPDX-License-Identifier: Apache-2.0
#include "sinks/sinks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "sinks/each_sink_kind.h"
#include "testing/sink_fixture.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

using SinksTest = SinkTest;

std::shared_ptr<Callback> MakePrint(const std::string& label, int fd) {
  return MakeSink(label, PrintKind(), {{"fd", std::to_string(fd)}}).value();
}

TEST_F(SinksTest, SinksTakeTapsOnly) {
  const callout_call call = {};
  EXPECT_THAT(MakePrint("print", 1)->Call(call), StatusIs(StatusCode::kFailedPrecondition, "a sink takes taps"));
  EXPECT_EQ(MakePrint("print", 1)->worker(), Worker::kNative);
}

TEST_F(SinksTest, NullSinkTakesAndForgets) {
  const auto sink = MakeSink("null", NullKind(), {}).value();
  EXPECT_EQ(sink->label(), "null");
  EXPECT_EQ(sink->worker(), Worker::kNative);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
}

TEST_F(SinksTest, PrintSinkWritesOneLineARecord) {
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  const auto sink = MakePrint("print", fd);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(0.25)}), IsOk());
  EXPECT_THAT(Deliver(*sink, {"state", {"x", "y"}}, {TestBuffer::Scalar(1), TestBuffer::Of<float>({2}, {1.5F, 2})}),
              IsOk());
  EXPECT_EQ(Contents(), "");
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Contents(), "loss: 0.25\nstate: x=1 y=[1.5 2]\n");
  close(fd);
}

TEST_F(SinksTest, PrintSinksOfOneOutputKeepTheOrderOfTheirRecords) {
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  const auto first = MakePrint("first", fd), second = MakePrint("second", fd);
  const SiteInfo a{"a", {""}}, b{"b", {""}};
  for (const float value : {1.0F, 2.0F}) {
    EXPECT_THAT(Deliver(*first, a, {TestBuffer::Scalar(value)}), IsOk());
    EXPECT_THAT(Deliver(*second, b, {TestBuffer::Scalar(value)}), IsOk());
  }
  EXPECT_THAT(first->Flush(), IsOk());
  EXPECT_THAT(second->Flush(), IsOk());
  EXPECT_EQ(Contents(), "a: 1\nb: 1\na: 2\nb: 2\n");
  close(fd);
}

TEST_F(SinksTest, PrintSinkReportsAClosedOutput) {
  const int fd = open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  const auto sink = MakePrint("print", fd);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), StatusIs(StatusCode::kInternal,
                                      "cannot write to file descriptor " + std::to_string(fd) + ": No space left"));
  close(fd);
}

TEST_F(SinksTest, PrintSinkWritesToStandardOutputByDefault) {
  const auto sink = MakeSink("print", PrintKind(), {}).value();
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(3)}), IsOk());
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "loss: 3\n");
}

}  // namespace
}  // namespace callout::internal
