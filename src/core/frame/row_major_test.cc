// SPDX-License-Identifier: Apache-2.0
#include "core/frame/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

std::vector<uint16_t> Copied(const std::vector<uint16_t>& from, const std::vector<int64_t>& dims,
                             const std::vector<int64_t>& minor_to_major) {
  std::vector<uint16_t> to(from.size(), 99);
  CopyToRowMajor(reinterpret_cast<const std::byte*>(from.data()), dims, minor_to_major, sizeof(uint16_t),
                 reinterpret_cast<std::byte*>(to.data()));
  return to;
}

TEST(RowMajorTest, IsTheLastDimensionFirst) {
  EXPECT_TRUE(IsRowMajor({}));
  EXPECT_TRUE(IsRowMajor(std::vector<int64_t>{0}));
  EXPECT_TRUE(IsRowMajor(std::vector<int64_t>{2, 1, 0}));
  EXPECT_FALSE(IsRowMajor(std::vector<int64_t>{1, 2, 0}));
}

TEST(RowMajorTest, EveryElementComesToItsPlace) {
  EXPECT_THAT(Copied({0, 1, 2, 3, 4, 5}, {2, 3}, {1, 0}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Copied({0, 3, 1, 4, 2, 5}, {2, 3}, {0, 1}), ElementsAre(0, 1, 2, 3, 4, 5));
  // The dims are 2, 1, 3, with the strides 3, 3, 1 and then 1, 2, 2.
  EXPECT_THAT(Copied({0, 1, 2, 3, 4, 5}, {2, 1, 3}, {2, 1, 0}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Copied({0, 3, 1, 4, 2, 5}, {2, 1, 3}, {0, 1, 2}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Copied({7}, {}, {}), ElementsAre(7));
  EXPECT_THAT(Copied({}, {0, 3}, {0, 1}), ElementsAre());
}

}  // namespace
}  // namespace callout::internal
