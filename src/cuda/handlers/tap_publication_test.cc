// SPDX-License-Identifier: Apache-2.0
//
// How a device says that a tap's data has arrived: on a driver whose streams cannot write, and on devices that refuse
// to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/taps/tap_slot.h"
#include "testing/cuda_tap_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class CudaTapPublicationTest : public CudaTapTest {
 protected:
  /// The values that arrive of `count` taps.
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

// The driver's table is the process's: here a table without the function.
TEST_F(CudaTapPublicationTest, IsAHostFunctionWhereTheDriverHasNoWrite) {
  const_cast<cuda::Driver&>(device().driver()).StreamWriteValue32 = nullptr;
  EXPECT_THAT(Taps(3), ElementsAre(6, 6, 6));
  EXPECT_EQ(fake()->calls("cuStreamWriteValue32"), 0);
  EXPECT_EQ(fake()->calls("cuLaunchHostFunc"), 3);
}

}  // namespace
}  // namespace callout::internal
