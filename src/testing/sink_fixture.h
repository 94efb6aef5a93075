// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests of sinks: handmade records, and a file of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/ticks.h"
#include "core/callbacks/callback.h"
#include "testing/live_counts.h"
#include "testing/test_buffer.h"

namespace callout::internal {

class SinkTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ =
        std::filesystem::path(::testing::TempDir()) / ("callout_sink_test." + test + "." + std::to_string(getpid()));
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    LiveCountTest::TearDown();
  }

  static Status Deliver(Callback& sink, const SiteInfo& site, std::vector<TestBuffer> buffers) {
    std::vector<callout_buffer> views;
    views.reserve(buffers.size());
    for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
    std::vector<void*> blocks(views.size());
    const Record record = {.site = &site,
                           .buffers = views,
                           .blocks = blocks.data(),
                           .device_ordinal = 2,
                           .run_id = 5,
                           .sequence = 9,
                           .ticks = Ticks()};
    return sink.Deliver(record);
  }

  std::string Contents() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::filesystem::path path_;
};

/// A fixture whose `path_` is a folder of the test's own, which is removed after the test.
class SinkFolderTest : public SinkTest {
 protected:
  void SetUp() override {
    SinkTest::SetUp();
    std::filesystem::create_directories(path_);
  }
  void TearDown() override {
    std::filesystem::remove_all(path_);
    SinkTest::TearDown();
  }
};

inline const SiteInfo kSingle = {"loss", {""}};

}  // namespace callout::internal
