// SPDX-License-Identifier: Apache-2.0
#include "cuda/taps/side_stage.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

namespace callout::internal {
namespace {

TEST(RingSpaceTest, IsTakenInOrderUntilItIsFull) {
  RingSpace ring(100);
  EXPECT_TRUE(ring.Has(60));
  EXPECT_EQ(ring.Take(60), 0U);
  EXPECT_FALSE(ring.Has(41));
  EXPECT_EQ(ring.Take(40), 60U);
  EXPECT_EQ(ring.used(), 100U);
  EXPECT_FALSE(ring.Has(1));
}

TEST(RingSpaceTest, WhatIsTooShortAtTheEndStaysEmpty) {
  RingSpace ring(100);
  EXPECT_EQ(ring.Take(50), 0U);
  const uint64_t first = ring.end();
  EXPECT_EQ(ring.Take(40), 50U);
  EXPECT_FALSE(ring.Has(20)) << "the first 50 are taken";
  ring.Release(first);
  EXPECT_TRUE(ring.Has(20));
  EXPECT_EQ(ring.Take(20), 0U);
  EXPECT_EQ(ring.used(), 70U) << "40, 10 that are skipped, 20";
  EXPECT_FALSE(ring.Has(31));
  EXPECT_EQ(ring.Take(30), 20U);
}

TEST(RingSpaceTest, EmptyRingIsFreeWhateverWasTakenBefore) {
  RingSpace ring(64);
  for (uint64_t step = 1; step <= 64; ++step) {
    for (int turn = 0; turn < 64; ++turn) {
      ASSERT_TRUE(ring.Has(64));
      ASSERT_TRUE(ring.Has(step));
      ASSERT_LE(ring.Take(step) + step, 64U);
      ring.Release(ring.end());
      ASSERT_EQ(ring.used(), 0U);
    }
  }
}

// A record without bytes in the ring has the end that was current when it came.
TEST(RingSpaceTest, AnOlderEndGivesNothingBack) {
  RingSpace ring(64);
  (void)ring.Take(40);
  const uint64_t older = ring.end();
  ring.Release(older);
  (void)ring.Take(10);
  ring.Release(older);
  EXPECT_EQ(ring.used(), 10U);
}

TEST(RingSpaceTest, PiecesThatAreTakenNeverOverlap) {
  RingSpace ring(1000);
  struct Piece {
    uint64_t begin, bytes, end;
  };
  std::deque<Piece> taken;
  uint64_t random = 1;
  for (int i = 0; i < 100'000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const uint64_t bytes = (random >> 33) % 300 + 1;
    if (!ring.Has(bytes)) {
      ring.Release(taken.front().end);
      taken.pop_front();
      continue;
    }
    const uint64_t begin = ring.Take(bytes);
    ASSERT_LE(begin + bytes, 1000U);
    for (const Piece& piece : taken) ASSERT_TRUE(begin + bytes <= piece.begin || piece.begin + piece.bytes <= begin);
    taken.push_back({begin, bytes, ring.end()});
  }
}

}  // namespace
}  // namespace callout::internal
