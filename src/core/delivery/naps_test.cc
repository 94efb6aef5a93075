// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/bounded_queue.h"

#include <gtest/gtest.h>

namespace callout::internal {
namespace {

class NapsTest : public ::testing::Test {
 protected:
  Naps::Duration After(int records, uint64_t bytes_of_each = 100) {
    for (int i = 0; i < records; ++i) naps_.Count(bytes_of_each);
    return naps_.Next();
  }

  Naps naps_;
};

TEST_F(NapsTest, SleepFollowsTheThirdNapThatFindsNothing) {
  EXPECT_EQ(After(1), Naps::kShortest);
  EXPECT_EQ(After(0), Naps::kIdle);
  EXPECT_EQ(After(0), Naps::kIdle);
  EXPECT_EQ(After(0), Naps::Duration::zero());
  EXPECT_EQ(After(0), Naps::kIdle) << "a sleep that found nothing begins anew";
}

TEST_F(NapsTest, OneRecordANapKeepsThemShort) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(After(1), Naps::kShortest);
}

TEST_F(NapsTest, SeveralRecordsMakeThemLongerUpToABound) {
  EXPECT_EQ(After(2), 2 * Naps::kShortest);
  EXPECT_EQ(After(2), 4 * Naps::kShortest);
  EXPECT_EQ(After(4), Naps::kLongest);
  EXPECT_EQ(After(8), Naps::kLongest);
  EXPECT_EQ(After(1), Naps::kShortest) << "its program may have waited";
}

TEST_F(NapsTest, ManyBytesMakeThemShorterDownToABound) {
  while (After(2) < Naps::kLongest) {
  }
  Naps::Duration last = Naps::kLongest;
  while (last > Naps::kShortest) {
    const Naps::Duration next = After(3, Naps::kManyBytes);
    EXPECT_LT(next, last);
    last = next;
  }
  EXPECT_EQ(After(1, 2 * Naps::kManyBytes), Naps::kShortest);
  EXPECT_EQ(After(2, Naps::kManyBytes / 3), Naps::kShortest) << "twice as long would find too many";
  EXPECT_EQ(After(2, Naps::kManyBytes / 4), 2 * Naps::kShortest);
}

}  // namespace
}  // namespace callout::internal
