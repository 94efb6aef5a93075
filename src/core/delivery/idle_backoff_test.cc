// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/bounded_queue.h"

#include <gtest/gtest.h>

namespace callout::internal {
namespace {

class IdleBackoffTest : public ::testing::Test {
 protected:
  IdleBackoff::Duration After(int records, uint64_t bytes_of_each = 100) {
    for (int i = 0; i < records; ++i) backoff_.Count(bytes_of_each);
    return backoff_.Next();
  }

  IdleBackoff backoff_;
};

TEST_F(IdleBackoffTest, SleepFollowsTheThirdNapThatFindsNothing) {
  EXPECT_EQ(After(1), IdleBackoff::kShortest);
  EXPECT_EQ(After(0), IdleBackoff::kIdle);
  EXPECT_EQ(After(0), IdleBackoff::kIdle);
  EXPECT_EQ(After(0), IdleBackoff::Duration::zero());
  EXPECT_EQ(After(0), IdleBackoff::kIdle) << "a sleep that found nothing begins anew";
}

TEST_F(IdleBackoffTest, OneRecordANapKeepsThemShort) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(After(1), IdleBackoff::kShortest);
}

TEST_F(IdleBackoffTest, SeveralRecordsMakeThemLongerUpToABound) {
  EXPECT_EQ(After(2), 2 * IdleBackoff::kShortest);
  EXPECT_EQ(After(2), 4 * IdleBackoff::kShortest);
  EXPECT_EQ(After(4), IdleBackoff::kLongest);
  EXPECT_EQ(After(8), IdleBackoff::kLongest);
  EXPECT_EQ(After(1), IdleBackoff::kShortest) << "its program may have waited";
}

TEST_F(IdleBackoffTest, ManyBytesMakeThemShorterDownToABound) {
  while (After(2) < IdleBackoff::kLongest) {
  }
  IdleBackoff::Duration last = IdleBackoff::kLongest;
  while (last > IdleBackoff::kShortest) {
    const IdleBackoff::Duration next = After(3, IdleBackoff::kManyBytes);
    EXPECT_LT(next, last);
    last = next;
  }
  EXPECT_EQ(After(1, 2 * IdleBackoff::kManyBytes), IdleBackoff::kShortest);
  EXPECT_EQ(After(2, IdleBackoff::kManyBytes / 3), IdleBackoff::kShortest) << "twice as long would find too many";
  EXPECT_EQ(After(2, IdleBackoff::kManyBytes / 4), 2 * IdleBackoff::kShortest);
}

}  // namespace
}  // namespace callout::internal
