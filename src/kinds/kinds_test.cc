// SPDX-License-Identifier: Apache-2.0
#include "kinds/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "registry/callback.h"
#include "registry/registry.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

class KindsTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    RegisterKinds();
  }
};

TEST_F(KindsTest, ProgramsGetPrintsByName) {
  RegisterKinds();
  const auto made = Registry::Get().Find("id_print:1;1000;1000000;;l0");
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made.value()->label(), "id_print");
  EXPECT_EQ(made.value()->lane(), Lane::kNative);
  EXPECT_THAT(Registry::Get().Find("id_print:1;x").status(),
              StatusIs(StatusCode::kInvalidArgument, "5 fields separated by ';'"));
}

TEST_F(KindsTest, ProgramsGetWatchesByName) {
  EXPECT_THAT(Registry::Get().Find("watch:1;ni;stop").status(), IsOk());
  EXPECT_THAT(Registry::Get().Find("watch:1;;stop").status(),
              StatusIs(StatusCode::kInvalidArgument, "a watch must be"));
}

TEST_F(KindsTest, ProgressBarsOfProgramsAreForgottenWithoutPython) {
  const auto bar = Registry::Get().Find("progress_bar:{}");
  ASSERT_THAT(bar, IsOk());
  EXPECT_EQ(bar.value()->lane(), Lane::kNative);
  EXPECT_THAT(bar.value()->Deliver({}), IsOk());
}

TEST_F(KindsTest, ProgramsGetTheClockOfProgressBarsByName) {
  const auto clock = Registry::Get().Find("progress_clock:");
  ASSERT_THAT(clock, IsOk());
  TestBuffer state = TestBuffer::Of<uint32_t>({8}, std::vector<uint32_t>(8));
  TestBuffer interval = TestBuffer::Of<uint32_t>({}, {1000});
  TestBuffer next = TestBuffer::Of<uint32_t>({8}, std::vector<uint32_t>(8));
  const callout_buffer args[] = {state.view(), interval.view()};
  const callout_buffer results[] = {next.view()};
  callout_call call = {};
  call.num_args = 2;
  call.num_results = 1;
  call.args = args;
  call.results = results;
  ASSERT_THAT(clock.value()->Call(call), IsOk());
  EXPECT_EQ(static_cast<const uint32_t*>(results[0].data)[7], 1U);
}

TEST_F(KindsTest, NamesOfOtherKindsNeedABinding) {
  EXPECT_STREQ(ProgramKindOf("id_print:1;1000;1000000;;l0"), "id_print");
  EXPECT_STREQ(ProgramKindOf("watch:"), "watch");
  EXPECT_STREQ(ProgramKindOf("progress_bar:{}"), "progress bar");
  EXPECT_STREQ(ProgramKindOf("progress_clock:"), "clock of progress bars");
  for (const char* name : {"watch", "loss", "", ":", "id_prints:x", "py:f"}) EXPECT_EQ(ProgramKindOf(name), nullptr);
}

}  // namespace
}  // namespace callout::internal
