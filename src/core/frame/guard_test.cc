// SPDX-License-Identifier: Apache-2.0
#include "core/frame/handler.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "testing/fake_runtime.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

class GuardTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(FakeRuntime::live_errors(), 0); }

  template <typename Body>
  Status Run(Body body) {
    return TakeError(Guard(FakeRuntime::ForMinor(3).api(), body));
  }
};

TEST_F(GuardTest, PassesStatusesOn) {
  EXPECT_THAT(Run([] { return OkStatus(); }), IsOk());
  EXPECT_THAT(Run([] { return NotFound("nothing"); }), StatusIs(StatusCode::kNotFound, "nothing"));
}

TEST_F(GuardTest, LetsNoExceptionThrough) {
  EXPECT_THAT(Run([]() -> Status { throw std::runtime_error("boom"); }),
              StatusIs(StatusCode::kInternal, "callout: boom"));
  EXPECT_THAT(Run([]() -> Status { throw 42; }),
              StatusIs(StatusCode::kInternal, "callout: it threw something that is not a std::exception"));
}

}  // namespace
}  // namespace callout::internal
