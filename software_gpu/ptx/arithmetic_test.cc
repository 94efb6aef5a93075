// SPDX-License-Identifier: Apache-2.0
// Tests arithmetic in kernels with operands, registers and the condition code.
#include "ptx/kernel_fixture.h"

namespace callout::software_gpu::ptx {
namespace {

using testing::Each;
using testing::ElementsAre;

class ArithmeticTest : public KernelTest {};

TEST_F(ArithmeticTest, TheSummandOfAWideProductIsWide) {
  const std::string high = "shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r1, %rd2;";
  EXPECT_THAT(Run("mad.wide.s32 %rd2, %r0, 4, -8;" + high, 3), ElementsAre(0xffffffff, 0xffffffff, 0));
  EXPECT_THAT(Run("mad.wide.u32 %rd2, %r0, 1, 0x500000000;" + high, 2), Each(5));
  EXPECT_THAT(Run("mov.u16 %h1, 3; mad.wide.s16 %r1, %h1, %h1, -70000;", 1), ElementsAre(0xfffeee99));
}

TEST_F(ArithmeticTest, CountsOfShiftsAndFieldsAreNotOfTheType) {
  EXPECT_THAT(Run("mov.u16 %h1, 1; shl.b16 %h2, %h1, 65536; cvt.u32.u16 %r1, %h2;", 1), ElementsAre(0));
  EXPECT_THAT(Run("mov.u64 %rd2, 0x1234500000000; bfe.u64 %rd3, %rd2, 32, 12; cvt.u32.u64 %r1, %rd3;", 1),
              ElementsAre(0x345));
}

TEST_F(ArithmeticTest, SelectionByAFloatTakesIntegers) {
  EXPECT_THAT(Run("cvt.rn.f32.u32 %f1, %r0; sub.f32 %f1, %f1, 0f3F800000; slct.u32.f32 %r1, 7, 9, %f1;", 3),
              ElementsAre(9, 7, 7));
}

TEST_F(ArithmeticTest, TheCarryGoesThroughWords) {
  EXPECT_THAT(Run("mov.u32 %r2, 0xffffffff; add.cc.u32 %r3, %r2, %r0; addc.cc.u32 %r4, %r2, 0; addc.u32 %r1, 5, 0;", 2),
              ElementsAre(5, 6));
  EXPECT_THAT(Run("sub.cc.u32 %r3, %r0, 1; subc.u32 %r1, 10, 0;", 2), ElementsAre(9, 10));
  EXPECT_THAT(Run("mov.u32 %r2, 0xffffffff; mad.lo.cc.u32 %r3, %r2, 1, %r0; madc.hi.u32 %r1, %r2, 2, 0;", 2),
              ElementsAre(1, 2));
}

TEST_F(ArithmeticTest, SignedResultsFillTheRegister) {
  EXPECT_THAT(Run("cvt.s8.s32 %r1, 384;", 1), ElementsAre(0xffffff80));
  EXPECT_THAT(Run("cvt.u8.u32 %r1, 511;", 1), ElementsAre(0xff));
  EXPECT_THAT(Run("mov.u32 %r2, 0x80; cvt.s8.u32 %h1, %r2; cvt.u32.u16 %r1, %h1;", 1), ElementsAre(0xff80));
}

TEST_F(ArithmeticTest, ComparisonsHaveTwoResults) {
  EXPECT_THAT(Run("setp.lt.u32 %p1|%p2, %r0, 2; selp.u32 %r1, 1, 0, %p1; @%p2 add.u32 %r1, %r1, 20;", 3),
              ElementsAre(1, 1, 20));
  EXPECT_THAT(Run("setp.eq.u32 %p3, %r0, 1; setp.lt.and.u32 %p1|%p2, %r0, 2, !%p3; selp.u32 %r1, 1, 0, %p1;"
                  "@%p2 add.u32 %r1, %r1, 20;",
                  3),
              ElementsAre(1, 0, 20));
}

TEST_F(ArithmeticTest, MaximaMayBeOfThree) {
  EXPECT_THAT(Run("cvt.rn.f32.u32 %f1, %r0; max.f32 %f2, %f1, 0f3F800000, 0f00000000; cvt.rzi.u32.f32 %r1, %f2;", 3),
              ElementsAre(1, 1, 2));
}

TEST_F(ArithmeticTest, ProductsOfPackedHalvesAreRead) {
  EXPECT_THAT(Run("mov.b32 %r2, 0x3c004000; fma.rn.relu.f16x2 %r1, %r2, %r2, %r2;", 1), ElementsAre(0x40004600));
}

}  // namespace
}  // namespace callout::software_gpu::ptx
