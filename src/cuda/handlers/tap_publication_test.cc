// SPDX-License-Identifier: Apache-2.0
//
// Tests how a device announces that a tap's data has arrived, on a driver without writes of streams, and on devices
// that refuse them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/taps/tap_slot.h"
#include "testing/cuda_tap_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class CudaTapPublicationTest : public CudaTapTest {
 protected:
  /// Returns the values that arrive from `count` taps.
  std::vector<float> Taps(int count) {
    const auto callback = Bind();
    std::vector<float> values;
    Collect(*callback, values);
    FrameBuilder frame = Frame();
    frame.Arg(OnDevice({}, {6.0F}));
    const auto site = NewTap(frame);
    for (int i = 0; i < count; ++i) EXPECT_THAT(site->Execute(frame), IsOk());
    Barrier();
    return values;
  }
};

TEST_F(CudaTapPublicationTest, IsAWriteOfTheStream) {
  EXPECT_THAT(Taps(2), ElementsAre(6, 6));
  EXPECT_EQ(fake()->calls("cuStreamWriteValue32"), 2);
  EXPECT_EQ(fake()->calls("cuLaunchHostFunc"), 0);
}

TEST_F(CudaTapPublicationTest, IsAHostFunctionWhereTheDeviceRefuses) {
  fake()->fail("cuStreamWriteValue32", 1, cuda::CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(Taps(3), ElementsAre(6, 6, 6));
  EXPECT_EQ(fake()->calls("cuStreamWriteValue32"), 1) << "the device is asked once";
  EXPECT_EQ(fake()->calls("cuLaunchHostFunc"), 3);
}

// The process has one table of driver functions; the test removes a function from it.
TEST_F(CudaTapPublicationTest, IsAHostFunctionWhereTheDriverHasNoWrite) {
  const_cast<cuda::Driver&>(device().driver()).StreamWriteValue32 = nullptr;
  EXPECT_THAT(Taps(3), ElementsAre(6, 6, 6));
  EXPECT_EQ(fake()->calls("cuStreamWriteValue32"), 0);
  EXPECT_EQ(fake()->calls("cuLaunchHostFunc"), 3);
}

}  // namespace
}  // namespace callout::internal
