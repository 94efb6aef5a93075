// SPDX-License-Identifier: Apache-2.0
//
// Tests a plugin for another platform that is newer than the PJRT header here. Inspecting it needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callout/pjrt/client.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using ::testing::Contains;
using ::testing::Key;

constexpr int kFfiExtension = 5;  // of PJRT_Extension_Type

TEST(CudaPluginTest, TakesTheTargetsAndSaysWhatItIs) {
  const std::string path = CALLOUT_CUDA_PLUGIN;
  if (path.empty()) GTEST_SKIP() << "the CUDA plugin (129 MiB) is downloaded where the environment has CI set";
  const auto plugin = Plugin::Load(path);
  ASSERT_THAT(plugin, IsOk());
  EXPECT_GT((*plugin)->minor_version(), 81);
  EXPECT_THAT((*plugin)->extensions(), Contains(kFfiExtension));
  EXPECT_THAT((*plugin)->attributes(), Contains(Key("stablehlo_current_version")));
  const auto client = Client::Create(*plugin);
  if (client.ok()) {
    EXPECT_EQ((*client)->platform(), "cuda");
  } else {
    EXPECT_NE(client.status().message(), "") << "there is no GPU, and it says so";
  }
}

}  // namespace
}  // namespace callout::pjrt
