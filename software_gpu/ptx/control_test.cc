// SPDX-License-Identifier: Apache-2.0
#include "ptx/kernel_fixture.h"

namespace callout::software_gpu::ptx {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class ControlTest : public KernelTest {};

constexpr const char* kFactorial = R"(
.func (.param .b32 result) factorial(.param .b32 n) {
.reg .pred %p<2>;
.reg .b32 %r<5>;
ld.param.u32 %r0, [n];
setp.gt.u32 %p0, %r0, 1;
@%p0 bra again;
mov.u32 %r1, 1;
st.param.b32 [result], %r1;
ret;
again:
sub.u32 %r2, %r0, 1;
{
.param .b32 argument;
.param .b32 back;
st.param.b32 [argument], %r2;
call.uni (back), factorial, (argument);
ld.param.b32 %r3, [back];
}
mul.lo.u32 %r4, %r0, %r3;
st.param.b32 [result], %r4;
ret;
}
)";

TEST_F(ControlTest, DivergedLanesComeTogetherAgain) {
  EXPECT_THAT(
      Run("and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra even; mov.u32 %r1, 100; bra.uni done;"
          "even: mov.u32 %r1, 200; done: activemask.b32 %r3; setp.eq.u32 %p2, %r3, 15; @%p2 add.u32 %r1, %r1, 1;",
          4),
      ElementsAre(201, 101, 201, 101));
}

TEST_F(ControlTest, LoopsEndForEachLaneByItself) {
  EXPECT_THAT(
      Run("mov.u32 %r1, 0; mov.u32 %r2, 0; loop: setp.ge.u32 %p1, %r2, %r0; @%p1 bra done; add.u32 %r1, %r1, %r2;"
          "add.u32 %r2, %r2, 1; bra loop; done:",
          5),
      ElementsAre(0, 0, 1, 3, 6));
}

TEST_F(ControlTest, GuardsSelectLanes) {
  EXPECT_THAT(Run("setp.lt.u32 %p1, %r0, 2; mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; @!%p1 add.u32 %r1, %r1, 9;", 4),
              ElementsAre(2, 2, 10, 10));
}

TEST_F(ControlTest, LabelsAndRegistersOfABlockAreItsOwn) {
  EXPECT_THAT(
      Run("mov.u32 %r1, 0; { .reg .b32 t; mov.u32 t, 3; bra over; add.u32 %r1, %r1, 50; over: add.u32 %r1, %r1, t; }"
          "{ .reg .b32 t; mov.u32 t, 4; bra over; add.u32 %r1, %r1, 50; over: add.u32 %r1, %r1, t; }"),
      ElementsAre(7));
}

TEST_F(ControlTest, BranchTables) {
  EXPECT_THAT(
      Run("targets: .branchtargets a, b, c; brx.idx %r0, targets; a: mov.u32 %r1, 10; bra done; b: mov.u32 %r1, 20;"
          "bra done; c: mov.u32 %r1, 30; done:",
          3),
      ElementsAre(10, 20, 30));
  EXPECT_EQ(RunFault("targets: .branchtargets a; brx.idx 1, targets; a: mov.u32 %r1, 1;").kind, Fault::kInvalidPc);
}

TEST_F(ControlTest, CallsPassAndReturnParameters) {
  EXPECT_THAT(
      Run("{ .param .align 8 .b8 p[16]; .param .b64 q; .param .b32 r; st.param.b32 [p+4], %r0; st.param.b64 [p+8], 40;"
          "st.param.b64 [q], 2; call (r), sum, (p, q); ld.param.b32 %r1, [r]; }",
          3,
          ".func (.param .b32 r) sum(.param .align 8 .b8 p[16], .param .b64 q) { .reg .b32 %r<3>; .reg .b64 %rd<3>;"
          "ld.param.u32 %r0, [p+4]; ld.param.u64 %rd0, [p+8]; ld.param.u64 %rd1, [q]; add.u64 %rd2, %rd0, %rd1;"
          "cvt.u32.u64 %r1, %rd2; add.u32 %r2, %r0, %r1; st.param.b32 [r], %r2; ret; }\n"),
      ElementsAre(42, 43, 44));
}

TEST_F(ControlTest, ParametersInRegisters) {
  EXPECT_THAT(Run("call (%r1), twice, (%r0);", 3, ".func (.reg .b32 r) twice(.reg .b32 x) { add.u32 r, x, x; ret; }\n"),
              ElementsAre(0, 2, 4));
}

TEST_F(ControlTest, RecursionOfDifferentDepths) {
  EXPECT_THAT(Run("{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call.uni (b), factorial, (a); ld.param.b32 "
                  "%r1, [b]; }",
                  7, kFactorial),
              ElementsAre(1, 1, 2, 6, 24, 120, 720));
}

TEST_F(ControlTest, EndlessRecursionOverflowsTheStack) {
  EXPECT_EQ(RunFault("call f;", 1, ".func f() { .local .b8 l[512]; call f; ret; }\n").kind, Fault::kStackOverflow);
  EXPECT_EQ(RunFault("call f;", 1, ".func f() { .reg .b32 %r<99>; mov.u32 %r1, 0; call f; ret; }\n").kind,
            Fault::kStackOverflow);
}

TEST_F(ControlTest, IndirectCalls) {
  const std::string functions =
      ".func (.param .b32 r) one(.param .b32 x) { .reg .b32 %r<2>; mov.u32 %r0, 1; st.param.b32 [r], %r0; ret; }\n"
      ".func (.param .b32 r) two(.param .b32 x) { .reg .b32 %r<2>; ld.param.b32 %r0, [x]; add.u32 %r1, %r0, 20;"
      "st.param.b32 [r], %r1; ret; }\n.func other(.param .b64 x) { ret; }\n"
      ".const .align 8 .u64 table[2] = {one, two};\n";
  const std::string call =
      "mov.u64 %rd2, table; mul.wide.u32 %rd3, %r0, 8; add.u64 %rd3, %rd2, %rd3; ld.const.u64 %rd4, [%rd3];"
      "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; proto: .callprototype (.param .b32 _) _ (.param .b32 _);"
      "call (b), %rd4, (a), proto; ld.param.b32 %r1, [b]; }";
  EXPECT_THAT(Run(call, 2, functions), ElementsAre(1, 21));
  const std::string wrong =
      "mov.u64 %rd4, other; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0;"
      "proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (b), %rd4, (a), proto; }";
  EXPECT_EQ(RunFault(wrong, 1, functions).kind, Fault::kInvalidPc);
}

TEST_F(ControlTest, BarriersOfTheBlock) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[4]; setp.eq.u32 %p1, %r0, 99; mov.u32 %r2, 5; @%p1 st.shared.u32 [s], %r2;"
                  "barrier.sync.aligned 0; ld.shared.u32 %r1, [s];",
                  100),
              Each(5));
}

TEST_F(ControlTest, BarriersReduce) {
  EXPECT_THAT(Run("setp.lt.u32 %p1, %r0, 33; bar.red.popc.u32 %r1, 0, %p1;", 70), Each(33));
  EXPECT_THAT(Run("setp.lt.u32 %p1, %r0, 33; bar.red.popc.u32 %r1, 0, !%p1;", 70), Each(37));
  EXPECT_THAT(Run("setp.lt.u32 %p1, %r0, 33; bar.red.and.pred %p2, 1, %p1; selp.u32 %r1, 1, 0, %p2;", 70), Each(0));
  EXPECT_THAT(
      Run("setp.lt.u32 %p1, %r0, 33; barrier.cta.red.or.aligned.pred %p2, 1, %p1; selp.u32 %r1, 1, 0, %p2;", 70),
      Each(1));
}

TEST_F(ControlTest, BarriersOfSomeWarps) {
  // Warps 0 and 1 have a barrier of their own; warp 2 arrives at another without waiting, and warp 3 waits there for
  // warp 2.
  EXPECT_THAT(Run(".shared .align 4 .b8 s[8]; shr.u32 %r2, %r0, 5; setp.lt.u32 %p1, %r2, 2; setp.eq.u32 %p2, %r2, 2;"
                  "mov.u32 %r1, 1; @%p1 bra low; @%p2 bra give; bar.sync 2, 64; ld.shared.u32 %r1, [s+4]; bra done;"
                  "give: mov.u32 %r3, 7; st.shared.u32 [s+4], %r3; bar.arrive 2, 64; bra done;"
                  "low: bar.sync 1, 64; done:",
                  128)[127],
              7);
}

TEST_F(ControlTest, EndedThreadsAreNotWaitedForAtBarriers) {
  EXPECT_THAT(Run("setp.gt.u32 %p1, %r0, 40; @%p1 exit; bar.sync 0; mov.u32 %r1, 3;", 64)[40], 3);
}

TEST_F(ControlTest, LanesOfAWarpTakeALockOneByOne) {
  // The lock's holder needs its turn although other lanes spin for the lock.
  EXPECT_THAT(
      Run("again: atom.global.cas.b32 %r2, [%rd0+2048], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra again;"
          "ld.volatile.global.u32 %r3, [%rd0+2052]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%rd0+2052], %r3;"
          "membar.gl; atom.global.exch.b32 %r2, [%rd0+2048], 0; mov.u32 %r1, 0;",
          96)
          .size(),
      96u);
  EXPECT_EQ(machine.buffer[513], 96u);
}

TEST_F(ControlTest, LanesWaitForALaterLane) {
  EXPECT_THAT(Run("setp.eq.u32 %p1, %r0, 31; @%p1 bra give; wait: ld.relaxed.gpu.global.u32 %r1, [%rd0+2048];"
                  "setp.eq.u32 %p2, %r1, 0; @%p2 bra wait; bra done; give: mov.u32 %r1, 6;"
                  "st.relaxed.gpu.global.u32 [%rd0+2048], %r1; done:",
                  32),
              Each(6));
}

TEST_F(ControlTest, PlainLoadsAlsoLetOthersRun) {
  EXPECT_THAT(
      Run("setp.eq.u32 %p1, %r0, 63; @%p1 bra give; wait: nanosleep.u32 20; ld.global.u32 %r1, [%rd0+2048];"
          "setp.eq.u32 %p2, %r1, 0; @%p2 bra wait; bra done; give: mov.u32 %r1, 6; st.global.u32 [%rd0+2048], %r1;"
          "done:",
          64),
      Each(6));
}

TEST_F(ControlTest, TrapsEndTheLaunch) {
  EXPECT_EQ(RunFault("setp.eq.u32 %p1, %r0, 3; @%p1 trap; mov.u32 %r1, 1;", 4).kind, Fault::kTrap);
  EXPECT_THAT(RunFault("setp.eq.u32 %p1, %r0, 3; @%p1 trap;", 4).text, HasSubstr("thread (3,0,0)"));
  EXPECT_EQ(RunFault("brkpt;").kind, Fault::kTrap);
}

TEST_F(ControlTest, HintsDoNothing) {
  EXPECT_THAT(
      Run("griddepcontrol.wait; griddepcontrol.launch_dependents; prefetch.global.L2 [%rd0]; prefetchu.L1 [%rd0];"
          ".pragma \"nounroll\";\nnanosleep.u32 %r0; mov.u32 %r1, 8;"),
      ElementsAre(8));
}

}  // namespace
}  // namespace callout::software_gpu::ptx
