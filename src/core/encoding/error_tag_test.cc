// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/error_tag.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

std::string TagOf(const std::string& word) { return "[callout error " + word + " of " + ErrorToken() + "]"; }

constexpr StatusKind kKinds[] = {
#define CALLOUT_ROW(name, word, what) StatusKind::name,
    CALLOUT_STATUS_KINDS(CALLOUT_ROW)
#undef CALLOUT_ROW
};

// Returns the failure on the other side of XLA, which adds words of its own before and after the text.
Status Crossed(const Status& failure) {
  return FromTaggedMessage(failure.code(), "Compute error: " + TaggedMessage(failure) + " on replica 0");
}

class ErrorTagTest : public testing::TestWithParam<StatusKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ErrorTagTest, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(StatusKindName(kind.param)); });

TEST_P(ErrorTagTest, KindCrossesBesideTheText) {
  const Status failure(StatusCode::kDataLoss, "bits fell off", GetParam());
  EXPECT_EQ(TaggedMessage(failure), "bits fell off\n" + TagOf(StatusKindName(GetParam())));
  EXPECT_THAT(Crossed(failure), StatusIs(StatusCode::kDataLoss, "Compute error: bits fell off on replica 0"));
  EXPECT_EQ(Crossed(failure).kind(), GetParam());
}

TEST_P(ErrorTagTest, TagInAMessageSaysNothing) {
  for (const StatusKind other : kKinds) {
    const Status forged(StatusCode::kInternal, "mine " + TagOf(StatusKindName(other)), GetParam());
    EXPECT_EQ(Crossed(forged).kind(), GetParam());
    const Status hidden(StatusCode::kInternal, "mine\n" + TagOf(StatusKindName(other)) + '\0', GetParam());
    EXPECT_EQ(Crossed(hidden).kind(), GetParam());
  }
}

TEST_P(ErrorTagTest, FailureInOtherWordsKeepsItsKind) {
  const Status failure = Status(StatusCode::kInternal, "one", GetParam()).WithMessage("two");
  EXPECT_THAT(failure, StatusIs(StatusCode::kInternal, "two"));
  EXPECT_EQ(failure.kind(), GetParam());
}

TEST(ErrorTagsTest, ExceptionCrossesAsItsNumber) {
  const Status failure = Status::OfException(StatusCode::kInternal, "KeyError: 'k'", 7);
  EXPECT_EQ(TaggedMessage(failure), "KeyError: 'k'\n" + TagOf("7"));
  const Status crossed = Crossed(failure);
  EXPECT_EQ(crossed.kind(), StatusKind::kException);
  EXPECT_EQ(crossed.exception(), 7U);
  EXPECT_EQ(crossed.WithMessage("other").exception(), 7U);
}

TEST(ErrorTagsTest, LastTagOfAProcessCountsAndAllAreTakenOut) {
  const std::string text = "a" + TagOf("check") + "b\n" + TagOf("result") + "c" + TagOf("strange") + "d";
  const Status status = FromTaggedMessage(StatusCode::kInternal, text);
  EXPECT_EQ(status.message(), "abc" + TagOf("strange") + "d");
  EXPECT_EQ(status.kind(), StatusKind::kResult);
}

TEST(ErrorTagsTest, TextsWithoutATagOfThisProcessStayAsTheyAre) {
  for (const char* text : {"", "plain", "[callout error check of ]", "[callout error check of 1000000]", " of "}) {
    const Status status = FromTaggedMessage(StatusCode::kInternal, text);
    EXPECT_EQ(status.message(), text);
    EXPECT_EQ(status.kind(), StatusKind::kGeneral);
  }
  const std::string tail = " of " + ErrorToken() + "]";
  EXPECT_EQ(FromTaggedMessage(StatusCode::kInternal, tail).message(), tail);
  EXPECT_EQ(FromTaggedMessage(StatusCode::kInternal, "x" + tail).message(), "x" + tail);
}

TEST(ErrorTagsTest, ForkedChildHasATokenOfItsOwn) {
  const std::string own = ErrorToken();
  EXPECT_EQ(own.size(), 6U);
  EXPECT_EQ(ErrorToken(), own);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ErrorToken() == own ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace callout::internal
