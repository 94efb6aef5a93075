// SPDX-License-Identifier: Apache-2.0
#include "core/base/small_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

namespace callout::internal {
namespace {

template <typename Buffer>
bool LiesInside(const Buffer& buffer) {
  const auto begin = reinterpret_cast<uintptr_t>(&buffer);
  const auto data = reinterpret_cast<uintptr_t>(buffer.data());
  return data >= begin && data < begin + sizeof(buffer);
}

TEST(SmallBufferTest, UsesTheStackUpToItsSize) {
  SmallBuffer<int, 4> buffer(4);
  EXPECT_EQ(buffer.size(), 4U);
  EXPECT_TRUE(LiesInside(buffer));
}

TEST(SmallBufferTest, UsesTheHeapBeyondIt) {
  SmallBuffer<int, 4> buffer(5);
  EXPECT_EQ(buffer.size(), 5U);
  EXPECT_FALSE(LiesInside(buffer));
}

TEST(SmallBufferTest, EveryElementCanBeWrittenAndRead) {
  for (const size_t size : {0U, 1U, 4U, 5U, 100U}) {
    SmallBuffer<int, 4> buffer(size);
    std::iota(buffer.data(), buffer.data() + size, 10);
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(buffer[i], 10 + static_cast<int>(i)) << size;
  }
}

}  // namespace
}  // namespace callout::internal
