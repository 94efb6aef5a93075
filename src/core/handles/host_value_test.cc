// SPDX-License-Identifier: Apache-2.0
#include "core/handles/host_value.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using HostValueTest = LiveCountTest;

HostArray Array(const std::vector<float>& values) {
  TestBuffer buffer = TestBuffer::Of<float>({static_cast<int64_t>(values.size())}, values);
  return HostArray::CopyOf(buffer.view());
}

float FirstOf(const HostArray& array) { return *reinterpret_cast<const float*>(array.data.data()); }

TEST_F(HostValueTest, ReadingIsKeptWhileTheValueChanges) {
  HostValue value({Array({1, 2}), Array({3})});
  const Answer before = value.Read();
  ASSERT_THAT(value.Set({Array({4, 5}), Array({6})}), IsOk());
  EXPECT_EQ(FirstOf((*before)[0]), 1);
  EXPECT_EQ(FirstOf((*value.Read())[1]), 6);
}

TEST_F(HostValueTest, TypesAndShapesStay) {
  HostValue value({Array({1, 2})});
  EXPECT_THAT(value.Set({Array({1, 2, 3})}),
              StatusIs(StatusCode::kInvalidArgument, "callout: HostValue: array 0: expected f32[2], got f32[3]"));
  EXPECT_THAT(value.Set({}), StatusIs(StatusCode::kInvalidArgument, "callout: HostValue: expected 1 arrays, got 0"));
  EXPECT_EQ(FirstOf((*value.Read())[0]), 1);
}

TEST_F(HostValueTest, ArraysOfOneReadingBelongTogether) {
  HostValue value({Array({0}), Array({0})});
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load()) {
      const Answer answer = value.Read();
      EXPECT_EQ(FirstOf((*answer)[0]), FirstOf((*answer)[1]));
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const auto number = static_cast<float>(i);
    EXPECT_THAT(value.Set({Array({number}), Array({number})}), IsOk());
  }
  done.store(true);
  reader.join();
}

}  // namespace
}  // namespace callout::internal
