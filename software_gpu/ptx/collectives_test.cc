// SPDX-License-Identifier: Apache-2.0
#include "ptx/kernel_fixture.h"

namespace callout::software_gpu::ptx {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class CollectivesTest : public KernelTest {
 protected:
  uint32_t Lane(const std::string& body, uint32_t lane, uint32_t threads = 32) { return Run(body, threads)[lane]; }
};

TEST_F(CollectivesTest, ShuffleModes) {
  const std::vector<uint32_t> down = Run("shfl.sync.down.b32 %r1, %r0, 3, 31, -1;", 32);
  EXPECT_EQ(down[0], 3u);
  EXPECT_EQ(down[28], 31u);
  EXPECT_EQ(down[29], 29u);  // lane 32 does not exist, so lane 29 keeps its own
  const std::vector<uint32_t> up = Run("shfl.sync.up.b32 %r1, %r0, 3, 0, -1;", 32);
  EXPECT_EQ(up[31], 28u);
  EXPECT_EQ(up[2], 2u);
  EXPECT_EQ(Run("shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;", 32)[8], 13u);
  EXPECT_THAT(Run("shfl.sync.idx.b32 %r1, %r0, 7, 31, -1;", 32), Each(7));
}

TEST_F(CollectivesTest, ShufflesWithinSegments) {
  // The segments have 8 lanes: c = clamp 31 | mask 24 << 8.
  const std::vector<uint32_t> down = Run("shfl.sync.down.b32 %r1, %r0, 3, 0x181f, -1;", 32);
  EXPECT_EQ(down[4], 7u);
  EXPECT_EQ(down[5], 5u);
  EXPECT_EQ(down[8], 11u);
  const std::vector<uint32_t> idx = Run("shfl.sync.idx.b32 %r1, %r0, 2, 0x181f, -1;", 32);
  EXPECT_EQ(idx[0], 2u);
  EXPECT_EQ(idx[31], 26u);
}

TEST_F(CollectivesTest, ShuffleTellsWhetherTheSourceIsInside) {
  EXPECT_THAT(Run("shfl.sync.down.b32 %r2|%p1, %r0, 1, 31, 0xf; selp.u32 %r1, 1, 0, %p1;", 4), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(Lane("shfl.sync.up.b32 %r2|%p1, %r0, 1, 0, -1; selp.u32 %r1, 1, 0, %p1;", 0), 0u);
}

TEST_F(CollectivesTest, Votes) {
  const std::string set = "setp.lt.u32 %p1, %r0, 3;";
  EXPECT_EQ(Lane(set + "vote.sync.ballot.b32 %r1, %p1, -1;", 9), 7u);
  EXPECT_EQ(Lane(set + "vote.sync.ballot.b32 %r1, !%p1, -1;", 9), ~7u);
  EXPECT_EQ(Lane(set + "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 9), 1u);
  EXPECT_EQ(Lane(set + "vote.sync.all.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 9), 0u);
  EXPECT_EQ(Lane(set + "vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 9), 0u);
  EXPECT_EQ(Lane("setp.gt.u32 %p1, %r0, 99; vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 9), 1u);
}

TEST_F(CollectivesTest, PartsOfAWarpMeetByThemselves) {
  // Each half votes with its own mask, at another place of the program.
  const std::vector<uint32_t> got =
      Run("setp.lt.u32 %p1, %r0, 16; and.b32 %r2, %r0, 1; setp.eq.u32 %p2, %r2, 0; @%p1 bra low;"
          "vote.sync.ballot.b32 %r1, %p2, 0xffff0000; bra done; low: vote.sync.ballot.b32 %r1, %p2, 0xffff; done:",
          32);
  EXPECT_EQ(got[3], 0x5555u);
  EXPECT_EQ(got[20], 0x55550000u);
}

TEST_F(CollectivesTest, LanesMeetAtDifferentPlacesOfTheProgram) {
  const std::vector<uint32_t> got =
      Run("setp.lt.u32 %p1, %r0, 16; mul.lo.u32 %r2, %r0, 10; @%p1 bra low;"
          "shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1; bra done; low: shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1; done:",
          32);
  EXPECT_EQ(got[0], 160u);
  EXPECT_EQ(got[31], 150u);
}

TEST_F(CollectivesTest, EndedLanesAreNotWaitedFor) {
  const std::vector<uint32_t> got =
      Run("setp.ge.u32 %p1, %r0, 8; @%p1 exit; setp.eq.u32 %p2, %r0, %r0; vote.sync.ballot.b32 %r1, %p2, -1;", 32);
  EXPECT_EQ(got[0], 0xffu);
}

TEST_F(CollectivesTest, LanesThatEndWhileOthersWaitLetThemGoOn) {
  // The other lanes wait at the vote before lane 31 ends behind a longer path.
  const std::vector<uint32_t> got = Run(
      "setp.eq.u32 %p1, %r0, 31; setp.eq.u32 %p2, %r0, %r0; @%p1 bra away; vote.sync.ballot.b32 %r1, %p2, -1; bra done;"
      "away: add.u32 %r2, %r0, 1; exit; done:",
      32);
  EXPECT_EQ(got[0], 0x7fffffffu);
}

TEST_F(CollectivesTest, BlocksOfLessThanAWarp) { EXPECT_THAT(Run("redux.sync.add.u32 %r1, %r0, -1;", 5), Each(10)); }

TEST_F(CollectivesTest, Reductions) {
  const std::string signed_value = "sub.s32 %r2, %r0, 3;";
  EXPECT_THAT(Run(signed_value + "redux.sync.min.s32 %r1, %r2, -1;", 8), Each(0xfffffffd));
  EXPECT_THAT(Run(signed_value + "redux.sync.max.s32 %r1, %r2, -1;", 8), Each(4));
  EXPECT_THAT(Run(signed_value + "redux.sync.max.u32 %r1, %r2, -1;", 8), Each(0xffffffff));
  EXPECT_THAT(Run("redux.sync.or.b32 %r1, %r0, -1;", 8), Each(7));
  EXPECT_THAT(Run("redux.sync.and.b32 %r1, %r0, -1;", 8), Each(0));
  EXPECT_THAT(Run("redux.sync.xor.b32 %r1, %r0, -1;", 6), Each(1));
}

TEST_F(CollectivesTest, Match) {
  EXPECT_THAT(Run("and.b32 %r2, %r0, 1; match.any.sync.b32 %r1, %r2, -1;", 4), ElementsAre(5, 10, 5, 10));
  EXPECT_THAT(Run("mov.u64 %rd2, 9; match.all.sync.b64 %r1|%p1, %rd2, -1; @!%p1 mov.u32 %r1, 77;", 4), Each(15));
  EXPECT_THAT(Run("match.all.sync.b32 %r2|%p1, %r0, -1; selp.u32 %r1, 1, %r2, %p1;", 4), Each(0));
}

TEST_F(CollectivesTest, ElectTakesTheLowestLane) {
  EXPECT_THAT(
      Run("setp.eq.u32 %p2, %r0, 0; @%p2 bra done; elect.sync %r2|%p1, 0xe; selp.u32 %r1, 100, %r2, %p1; done:", 4),
      ElementsAre(testing::_, 100, 1, 1));
}

TEST_F(CollectivesTest, ActiveMaskIsWhatRunsTogether) {
  const std::vector<uint32_t> got =
      Run("setp.lt.u32 %p1, %r0, 4; mov.u32 %r1, 0; @%p1 bra low; bra done; low: activemask.b32 %r1; done:", 32);
  EXPECT_EQ(got[1], 15u);
  EXPECT_EQ(got[5], 0u);
}

TEST_F(CollectivesTest, ALaneOutsideItsMaskIsAFault) {
  const Fault fault = RunFault("shfl.sync.idx.b32 %r1, %r0, 0, 31, 1;", 2);
  EXPECT_EQ(fault.kind, Fault::kIllegalInstruction);
  EXPECT_THAT(fault.text, HasSubstr("thread (1,0,0)"));
}

TEST_F(CollectivesTest, LanesThatNeverComeAreADeadlock) {
  const Fault fault =
      RunFault("setp.eq.u32 %p1, %r0, 0; @%p1 bra other; bar.warp.sync -1; bra done; other: bar.sync 0; done:", 32);
  EXPECT_EQ(fault.kind, Fault::kDeadlock);
}

TEST_F(CollectivesTest, WarpBarriersOrderSharedMemory) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[4]; setp.eq.u32 %p1, %r0, 0; mov.u32 %r2, 42; @%p1 bra write; bra meet;"
                  "write: st.shared.u32 [s], %r2; meet: bar.warp.sync -1; ld.shared.u32 %r1, [s];",
                  32),
              Each(42));
}

}  // namespace
}  // namespace callout::software_gpu::ptx
