// SPDX-License-Identifier: Apache-2.0
#include "core/frame/buffer.h"

#include <gtest/gtest.h>

#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

TEST(BufferTest, ElementCountIsTheProductOfTheExtents) {
  EXPECT_EQ(ElementCount(TestBuffer::Zeros(DType::kInt8, {}).view()), 1);
  EXPECT_EQ(ElementCount(TestBuffer::Zeros(DType::kInt8, {7}).view()), 7);
  EXPECT_EQ(ElementCount(TestBuffer::Zeros(DType::kInt8, {2, 3, 4}).view()), 24);
  EXPECT_EQ(ElementCount(TestBuffer::Zeros(DType::kInt8, {2, 0, 4}).view()), 0);
}

TEST(BufferTest, ShapesAreWrittenAsXlaWritesThem) {
  EXPECT_EQ(ShapeString(TestBuffer::Zeros(DType::kFloat32, {8, 4}).view()), "f32[8,4]");
  EXPECT_EQ(ShapeString(TestBuffer::Zeros(DType::kInt64, {}).view()), "s64[]");
  EXPECT_EQ(ShapeString(TestBuffer::Zeros(DType::kBfloat16, {0}).view()), "bf16[0]");
  callout_buffer unknown = {};
  unknown.dtype = 99;
  EXPECT_EQ(ShapeString(unknown), "?[]");
}

}  // namespace
}  // namespace callout::internal
