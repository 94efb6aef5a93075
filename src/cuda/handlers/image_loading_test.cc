// SPDX-License-Identifier: Apache-2.0
//
// Tests when the code of a kernel is loaded (CUDA C++ Programming Guide, Lazy Loading). Like a driver, the software GPU
// loads a kernel of PTX at its first launch, unless something has loaded it before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cuda/driver/stream_work.h"
#include "testing/image_site_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

constexpr char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry increment(.param .u64 at)
{
  .reg .f32 %value;
  .reg .b64 %at;
  ld.param.u64 %at, [at];
  cvta.to.global.u64 %at, %at;
  ld.global.f32 %value, [%at];
  add.f32 %value, %value, 0f3F800000;
  st.global.f32 [%at], %value;
  ret;
}
)";

class ImageLoadingTest : public ImageSiteTest {
 protected:
  FrameBuilder IncrementFrame(const TestBuffer& data) {
    FrameBuilder frame;
    frame.StringAttr("callback", "increment")
        .DictionaryAttr("image", {{"bytes", kPtx}, {"symbol", "increment"}})
        .Int64ArrayAttr("grid", {1, 1, 1})
        .Int64ArrayAttr("block", {1, 1, 1})
        .Int64ArrayAttr("parameter_bytes", {8})
        .StringAttr("parameter_block", std::string(8, '\0'))
        .Int64ArrayAttr("pointers", {0, 0})
        .Arg(data);
    return frame;
  }
};

// XLA may capture a program that has never run.
TEST_F(ImageLoadingTest, FirstLaunchMayBeARecordedOne) {
  const auto site = NewSite();
  TestBuffer data = OnDevice({1}, {1});
  FrameBuilder frame = IncrementFrame(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Initialize(frame, &callout_v1_image_initialize), IsOk());
  const cuda::ContextScope current(device());
  const auto executable = RecordCall(*site, frame);
  ASSERT_THAT(executable, IsOk());
  ASSERT_THAT(Launch(device(), *executable, stream()), IsOk());
  EXPECT_THAT(Read(data), ElementsAre(2));
}

// A function belongs to a context.
TEST_F(ImageLoadingTest, IsDoneOnceForEachSiteAndDeviceAndNeverByALaunch) {
  for (const int ordinal : {0, 1}) {
    const auto site = NewSite(ordinal);
    TestBuffer data = OnDevice({1}, {1}, ordinal);
    FrameBuilder frame = IncrementFrame(data);
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    const int before = fake()->calls("cuFuncLoad");
    for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Initialize(frame, &callout_v1_image_initialize), IsOk());
    EXPECT_EQ(fake()->calls("cuFuncLoad") - before, 1);
    for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
    EXPECT_EQ(fake()->calls("cuFuncLoad") - before, 1);
    EXPECT_THAT(Read(data, ordinal), ElementsAre(3));
  }
}

}  // namespace
}  // namespace callout::internal
