// SPDX-License-Identifier: Apache-2.0
//
// Fixtures for tests with a client of the CPU plugin. They check that nothing leaks.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "callout/pjrt/client.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {

class CpuClientTest : public LiveCountTest {
 protected:
  /// Makes a client of two devices, unless `options` have another number.
  static std::shared_ptr<const pjrt::Client> MakeClient(pjrt::ClientOptions options = {}) {
    options.values.emplace("cpu_device_count", int64_t{2});
    auto client = pjrt::Client::Create(pjrt::Plugin::Load(CALLOUT_TEST_PLUGIN).value(), options);
    EXPECT_THAT(client, IsOk());
    return std::move(client).value();
  }
};

/// Has a client from the beginning.
class OneCpuClientTest : public CpuClientTest {
 protected:
  void SetUp() override {
    CpuClientTest::SetUp();
    client_ = MakeClient();
  }
  void TearDown() override {
    client_.reset();
    CpuClientTest::TearDown();
  }

  std::shared_ptr<const pjrt::Client> client_;
};

}  // namespace callout::internal
