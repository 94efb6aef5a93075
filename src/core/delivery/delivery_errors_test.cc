// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/delivery_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/callbacks/call_statistics.h"
#include "testing/fake_callbacks.h"
#include "testing/log_capture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DeliveryErrorsTest : public ::testing::Test {
 protected:
  void SetUp() override { ResetStats(); }

  LogCapture log_;
  DeliveryErrors errors_;
};

TEST_F(DeliveryErrorsTest, NothingFailed) {
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_EQ(report.count, 0U);
  EXPECT_THAT(report.first, IsEmpty());
  EXPECT_EQ(report.last, "");
}

TEST_F(DeliveryErrorsTest, KeepsCountFirstAndLast) {
  const FakeCallback callback("errors.keeps");
  for (int i = 0; i < 20; ++i) errors_.Add(callback, 1, InternalError("number " + std::to_string(i)));
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_EQ(report.count, 20U);
  ASSERT_EQ(report.first.size(), 8U);
  EXPECT_EQ(report.first[0], "callout: callback 'errors.keeps' failed on device 1: number 0");
  EXPECT_EQ(report.first[7], "callout: callback 'errors.keeps' failed on device 1: number 7");
  EXPECT_EQ(report.last, "callout: callback 'errors.keeps' failed on device 1: number 19");
}

TEST_F(DeliveryErrorsTest, TakeForgets) {
  const FakeCallback callback("errors.takes");
  errors_.Add(callback, 0, InternalError("old"));
  (void)errors_.Take();
  errors_.Add(callback, 0, InternalError("new"));
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_EQ(report.count, 1U);
  EXPECT_THAT(report.first, ElementsAre(HasSubstr("new")));
  EXPECT_EQ(errors_.Take().count, 0U);
}

TEST_F(DeliveryErrorsTest, FirstErrorOfEachCallbackIsLogged) {
  const FakeCallback a("errors.a");
  const FakeCallback b("errors.b");
  errors_.Add(a, 0, InternalError("one"));
  errors_.Add(a, 0, InternalError("two"));
  errors_.Add(b, -1, InternalError("three"));
  EXPECT_THAT(log_.messages(), ElementsAre(HasSubstr("40 callout: callback 'errors.a' failed on device 0: one"),
                                           HasSubstr("40 callout: callback 'errors.b' failed: three")));
}

}  // namespace
}  // namespace callout::internal
