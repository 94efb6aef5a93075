// SPDX-License-Identifier: Apache-2.0
//
// Tests loading the real CPU plugin.
#include "callout/pjrt/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "callout/pjrt/buffer.h"
#include "callout/pjrt/client.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Plugin> LoadPlugin() {
  auto plugin = Plugin::Load(CALLOUT_TEST_PLUGIN);
  EXPECT_TRUE(plugin.ok()) << plugin.status().message();
  return std::move(plugin).value();
}

std::shared_ptr<const Client> MakeClient(int64_t devices = 2) {
  auto client = Client::Create(LoadPlugin(), {.values = {{"cpu_device_count", devices}}});
  EXPECT_TRUE(client.ok()) << client.status().message();
  return std::move(client).value();
}

TEST(PluginTest, SaysWhatItIs) {
  const auto plugin = LoadPlugin();
  EXPECT_EQ(plugin->major_version(), 0);
  EXPECT_EQ(plugin->minor_version(), 81);
  const auto it = plugin->attributes().find("stablehlo_current_version");
  ASSERT_NE(it, plugin->attributes().end());
  EXPECT_THAT(std::get<std::vector<int64_t>>(it->second), ElementsAre(1, 13, 3));
  EXPECT_FALSE(plugin->extensions().empty());
}

TEST(PluginTest, IsLoadedOnce) { EXPECT_EQ(LoadPlugin(), LoadPlugin()); }

TEST(PluginTest, IsFoundByTheEnvironment) {
  setenv("CALLOUT_PJRT_PLUGIN", CALLOUT_TEST_PLUGIN, 1);
  const auto plugin = Plugin::Load();
  unsetenv("CALLOUT_PJRT_PLUGIN");
  ASSERT_TRUE(plugin.ok()) << plugin.status().message();
  EXPECT_EQ(plugin.value()->path(), CALLOUT_TEST_PLUGIN);
}

TEST(PluginTest, WithoutAnyItSaysWhatToDo) {
  const char* saved = std::getenv("VIRTUAL_ENV");
  const std::string before = saved == nullptr ? "" : saved;
  setenv("VIRTUAL_ENV", "/no/such/environment", 1);
  unsetenv("CONDA_PREFIX");
  const auto plugin = Plugin::Load();
  setenv("VIRTUAL_ENV", before.c_str(), 1);
  EXPECT_EQ(plugin.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(plugin.status().message()), HasSubstr("set CALLOUT_PJRT_PLUGIN"));
}

TEST(PluginTest, WhatIsNoPluginIsRefusedByName) {
  const auto missing = Plugin::Load("/no/such/plugin.so");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/such/plugin.so"));
  const auto other = Plugin::Load("libm.so.6");
  EXPECT_EQ(other.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("no GetPjrtApi"));
}

TEST(ClientTest, HasTheDevicesThatWereAskedFor) {
  const auto client = MakeClient(3);
  EXPECT_EQ(client->platform(), "cpu");
  ASSERT_EQ(client->devices().size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client->devices()[static_cast<size_t>(i)].ordinal, i);
}

TEST(BufferTest, ComesBackAsItWent) {
  const auto client = MakeClient();
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> dims = {2, 3};
  const auto buffer = Buffer::FromHost(client, client->devices()[1], dims, values);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  EXPECT_EQ(buffer.value().dtype().value(), DType::kFloat32);
  EXPECT_EQ(buffer.value().dims().value(), dims);
  EXPECT_EQ(buffer.value().ToVector<float>().value(), values);
  EXPECT_THAT(std::string(buffer.value().ToVector<int32_t>().status().message()),
              HasSubstr("expected an array of s32, got one of f32"));
}

TEST(BufferTest, WithoutElements) {
  const auto client = MakeClient();
  const std::vector<int64_t> dims = {0, 3};
  const auto buffer = Buffer::FromHost(client, client->devices()[0], dims, std::vector<int32_t>());
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  EXPECT_TRUE(buffer.value().ToVector<int32_t>().value().empty());
}

TEST(BufferTest, NumbersOfElementsMustFit) {
  const auto client = MakeClient();
  const std::vector<int64_t> dims = {2};
  const auto buffer = Buffer::FromHost(client, client->devices()[0], dims, std::vector<float>{1, 2, 3});
  EXPECT_THAT(std::string(buffer.status().message()), HasSubstr("2 elements cannot be made of 3 values"));
}

}  // namespace
}  // namespace callout::pjrt
