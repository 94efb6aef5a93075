// SPDX-License-Identifier: Apache-2.0
#include "callout/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>

#include "core/base/status.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(StatusTest, IsOkByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_STREQ(status.c_message(), "");
}

TEST(StatusTest, KeepsCodeAndText) {
  const Status status = NotFound("no such thing");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no such thing");
  EXPECT_STREQ(status.c_message(), "no such thing");
}

TEST(StatusTest, IsOkIfMadeWithTheOkCode) { EXPECT_THAT(Status(StatusCode::kOk, "ignored"), IsOk()); }

TEST(StatusTest, IsOnePointerLarge) { EXPECT_EQ(sizeof(Status), sizeof(void*)); }

TEST(StatusTest, CopiesAreErrorsOfTheirOwn) {
  Status first = NotFound("no such thing");
  Status second = first;
  first = OkStatus();
  EXPECT_THAT(second, StatusIs(StatusCode::kNotFound, "no such thing"));
  const Status third = InvalidArgument("else");
  second = third;
  EXPECT_THAT(second, StatusIs(StatusCode::kInvalidArgument, "else"));
  const Status& same = second;
  second = same;
  EXPECT_THAT(second, StatusIs(StatusCode::kInvalidArgument, "else"));
  EXPECT_THAT(Status(first), IsOk());
}

TEST(StatusTest, IsWrittenAsItsCodeAndText) {
  EXPECT_EQ(NotFound("no such thing").ToString(), "NotFound: no such thing");
  EXPECT_EQ(OkStatus().ToString(), "Ok");
  EXPECT_EQ(Status(StatusCode::kUnauthenticated, "").ToString(), "Unauthenticated");
  EXPECT_EQ(Status(static_cast<StatusCode>(17), "new").ToString(), "code 17: new");
  EXPECT_EQ(Status(static_cast<StatusCode>(-1), "odd").ToString(), "code -1: odd");
  std::ostringstream stream;
  stream << Unavailable("later");
  EXPECT_EQ(stream.str(), "Unavailable: later");
}

TEST(StatusTest, EachMakerGivesItsCode) {
  EXPECT_EQ(InvalidArgument("").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AlreadyExists("").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(FailedPrecondition("").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ResourceExhausted("").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Unavailable("").code(), StatusCode::kUnavailable);
  EXPECT_EQ(Unimplemented("").code(), StatusCode::kUnimplemented);
  EXPECT_EQ(InternalError("").code(), StatusCode::kInternal);
}

TEST(StatusTest, ReturnIfErrorEvaluatesOnceAndReturnsTheError) {
  int evaluated = 0;
  int went_on = 0;
  const auto function = [&](bool fail) -> Status {
    const auto step = [&] {
      ++evaluated;
      return fail ? Unavailable("step") : OkStatus();
    };
    CALLOUT_RETURN_IF_ERROR(step());
    ++went_on;
    return OkStatus();
  };
  EXPECT_THAT(function(true), StatusIs(StatusCode::kUnavailable, "step"));
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(went_on, 0);
  EXPECT_THAT(function(false), IsOk());
  EXPECT_EQ(evaluated, 2);
  EXPECT_EQ(went_on, 1);
}

TEST(ResultTest, HoldsAValue) {
  Result<int> result(7);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(*result, 7);
  EXPECT_EQ(result.value(), 7);
  EXPECT_THAT(result.status(), IsOk());
}

TEST(ResultTest, HoldsAnError) {
  const Result<int> result(InternalError("broken"));
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(result.status(), StatusIs(StatusCode::kInternal, "broken"));
}

TEST(ResultDeathTest, ItsMissingValueEndsTheProcessWithTheError) {
  Result<int> result(NotFound("no such thing"));
  const Result<int>& constant = result;
  constexpr auto kText = "the value of a Result was asked for that has none: NotFound: no such thing";
  EXPECT_DEATH((void)result.value(), kText);
  EXPECT_DEATH((void)constant.value(), kText);
  EXPECT_DEATH((void)std::move(result).value(), kText);
  EXPECT_DEATH((void)*result, kText);
  const Result<std::string> text(NotFound("no such thing"));
  EXPECT_DEATH((void)text->size(), kText);
}

TEST(ResultTest, IsAnErrorIfMadeOfAnOkStatus) {
  const Result<int> result{OkStatus()};
  EXPECT_THAT(result.status(), StatusIs(StatusCode::kInternal, "made of an ok Status"));
}

TEST(ResultTest, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(ResultTest, AssignOrReturnMovesTheValueOrReturnsTheError) {
  const auto make = [](bool fail) -> Result<std::unique_ptr<int>> {
    if (fail) return NotFound("nothing made");
    return std::make_unique<int>(5);
  };
  const auto twice = [&](bool fail_second) -> Result<int> {
    CALLOUT_ASSIGN_OR_RETURN(const std::unique_ptr<int> first, make(false));
    CALLOUT_ASSIGN_OR_RETURN(const std::unique_ptr<int> second, make(fail_second));
    return *first + *second;
  };
  EXPECT_THAT(twice(false), IsOkAndHolds(10));
  EXPECT_THAT(twice(true), StatusIs(StatusCode::kNotFound, "nothing made"));
}

template <typename Exception>
Status Caught(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return CaughtStatus();
  }
}

TEST(CaughtTest, ExceptionsSayWhatTheyAre) {
  EXPECT_THAT(Caught(std::runtime_error("mine")), StatusIs(StatusCode::kInternal, "mine"));
  EXPECT_THAT(Caught(1), StatusIs(StatusCode::kInternal, "it threw something that is not a std::exception"));
}

TEST(CaughtTest, NoMemoryIsAResourceThatIsExhausted) {
  EXPECT_THAT(Caught(std::bad_alloc()), StatusIs(StatusCode::kResourceExhausted, "out of memory"));
  EXPECT_THAT(Caught(std::bad_array_new_length()), StatusIs(StatusCode::kResourceExhausted, "out of memory"));
}

}  // namespace
}  // namespace callout::internal
