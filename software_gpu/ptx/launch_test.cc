// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "ptx/kernel_fixture.h"

namespace callout::software_gpu::ptx {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class LaunchTest : public KernelTest {};

TEST_F(LaunchTest, SpecialRegistersOfThreads) {
  Shape shape;
  shape.block = {2, 3, 4};
  shape.grid = {2, 1, 1};
  const Fault fault =
      RunText(Module("mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.y; mad.lo.u32 %r5, %r3, %r4, %r2;"
                     "mad.lo.u32 %r5, %r5, %ntid.x, %r0; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r5, %r6, 24, %r5;"
                     "mad.wide.u32 %rd1, %r5, 4, %rd0; mov.u32 %r7, %nctaid.x; mov.u32 %r8, %laneid;"
                     "mad.lo.u32 %r1, %r7, 1000, %r8;"),
              shape);
  ASSERT_EQ(fault.kind, Fault::kNone) << fault.text;
  for (uint32_t i = 0; i < 48; ++i) EXPECT_EQ(machine.buffer[i], 2000 + i % 24) << i;
}

TEST_F(LaunchTest, SpecialRegistersOfWarps) {
  EXPECT_EQ(Run("mov.u32 %r1, %warpid;", 70)[69], 2u);
  EXPECT_EQ(Run("mov.u32 %r1, %nwarpid;", 70)[0], 3u);
  EXPECT_THAT(Run("mov.u32 %r1, %lanemask_eq;", 3), ElementsAre(1, 2, 4));
  EXPECT_THAT(Run("mov.u32 %r1, %lanemask_lt;", 3), ElementsAre(0, 1, 3));
  EXPECT_THAT(Run("mov.u32 %r1, %lanemask_le;", 3), ElementsAre(1, 3, 7));
  EXPECT_THAT(Run("mov.u32 %r1, %lanemask_gt;", 3), ElementsAre(~1u, ~3u, ~7u));
  EXPECT_THAT(Run("mov.u32 %r1, %lanemask_ge;", 3), ElementsAre(~0u, ~1u, ~3u));
  EXPECT_THAT(Run("mov.u32 %r1, WARP_SZ;"), ElementsAre(32));
  EXPECT_THAT(Run("mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %cluster_ctarank; add.u32 %r1, %r2, %r3;"),
              ElementsAre(1));
  EXPECT_THAT(
      Run("mov.u64 %rd2, %globaltimer; mov.u64 %rd3, %clock64; setp.gt.u64 %p1, %rd3, %rd2; selp.u32 %r1, 1, 0, %p1;"
          "mov.u32 %r2, %clock;"),
      ElementsAre(1));
}

TEST_F(LaunchTest, MovesPackAndUnpack) {
  EXPECT_THAT(Run("mov.b64 %rd2, {%r0, 7}; mov.b64 {_, %r1}, %rd2;", 2), ElementsAre(7, 7));
  EXPECT_THAT(Run("mov.b32 %r2, 0x11223344; mov.b32 {%h0, %h1}, %r2; mov.b32 %r1, {%h1, %h0};"),
              ElementsAre(0x33441122));
  EXPECT_THAT(Run("mov.b32 %r2, 0x11223344; .reg .b8 %b<4>; mov.b32 {%b0,%b1,%b2,%b3}, %r2; cvt.u32.u8 %r1, %b3;"),
              ElementsAre(0x11));
  EXPECT_THAT(Run("mov.b32 %r1, 0f3f800000;"), ElementsAre(0x3f800000));
  EXPECT_THAT(Run("mov.f64 %d0, 0d3ff0000000000000; cvt.rn.f32.f64 %f0, %d0; mov.b32 %r1, %f0;"),
              ElementsAre(0x3f800000));
  EXPECT_THAT(Run("add.f32 %f0, 0f3f800000, 1.5; mov.b32 %r1, %f0;"), ElementsAre(0x40200000));
}

TEST_F(LaunchTest, NarrowResultsAreExtendedInWiderRegisters) {
  EXPECT_THAT(Run("mov.u32 %r2, 0x80; cvt.s8.s32 %r1, %r2;"), ElementsAre(0xffffff80));
  EXPECT_THAT(Run("mov.u32 %r2, 0x180; cvt.u8.u32 %r1, %r2;"), ElementsAre(0x80));
}

TEST_F(LaunchTest, CarriesGoFromInstructionToInstruction) {
  EXPECT_THAT(Run("mov.u32 %r2, -1; add.cc.u32 %r3, %r2, %r0; addc.u32 %r1, 0, 0;", 3), ElementsAre(0, 1, 1));
  EXPECT_THAT(Run("sub.cc.u32 %r3, %r0, 1; subc.u32 %r1, 5, 0;", 3), ElementsAre(4, 5, 5));
}

TEST_F(LaunchTest, SetpWritesBothPredicates) {
  EXPECT_THAT(Run("setp.lt.u32 %p1|%p2, %r0, 1; selp.u32 %r1, 1, 0, %p1; @%p2 add.u32 %r1, %r1, 10;", 2),
              ElementsAre(1, 10));
  EXPECT_THAT(Run("setp.lt.u32 %p1, %r0, 1; setp.lt.and.u32 %p2|%p1, %r0, 9, !%p1; selp.u32 %r1, 1, 0, %p2;", 2),
              ElementsAre(0, 1));
}

TEST_F(LaunchTest, PrintfFormats) {
  const std::string module =
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
      ".global .align 1 .b8 format[22] = {37,100,32,37,53,46,50,102,32,37,108,108,117,32,37,115,37,37,33,10,0};\n";
  const std::string body =
      ".local .align 8 .b8 l[40]; .param .b64 f; .param .b64 a; .param .b32 back; mov.u32 %r2, -5; st.local.u32 [l], "
      "%r2;"
      "st.local.f64 [l+8], 0d4004000000000000; st.local.u64 [l+16], -1; mov.u32 %r3, 0x6968; st.local.u32 [l+32], %r3;"
      "mov.u64 %rd2, l; cvta.local.u64 %rd2, %rd2; add.u64 %rd3, %rd2, 32; st.local.u64 [l+24], %rd3;"
      "mov.u64 %rd4, format; st.param.b64 [f], %rd4; st.param.b64 [a], %rd2; call (back), vprintf, (f, a);"
      "ld.param.b32 %r1, [back];";
  EXPECT_THAT(Run(body, 1, module), ElementsAre(4));
  EXPECT_EQ(machine.printed, "-5  2.50 18446744073709551615 hi%!\n");
}

TEST_F(LaunchTest, FailedAssertsSayWhere) {
  const std::string module =
      ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s) "
      ".noreturn;\n"
      ".global .align 1 .b8 text[2] = {120, 0};\n";
  const Fault fault = RunFault(
      ".param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s; mov.u64 %rd2, text; st.param.b64 "
      "[m], %rd2;"
      "st.param.b64 [f], %rd2; st.param.b32 [l], 12; st.param.b64 [n], %rd2; st.param.b64 [s], 1; call __assertfail, "
      "(m,f,l,n,s);",
      1, module);
  EXPECT_EQ(fault.kind, Fault::kAssert);
  EXPECT_EQ(machine.printed, "x:12: x: block: [0,0,0], thread: [0,0,0] Assertion `x` failed.\n");
}

TEST_F(LaunchTest, ConditionalHandlesAreSet) {
  const std::string module = ".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v)\n;\n";
  const std::string body =
      ".param .b64 h; .param .b32 v; st.param.b64 [h], %rd5; st.param.b32 [v], 3; call cudaGraphSetConditional, (h, "
      "v);";
  Run("mov.u64 %rd5, 17; mov.u32 %r1, 0; " + body, 1, module);
  EXPECT_THAT(machine.conditionals, ElementsAre(std::pair(17, 3)));
  EXPECT_EQ(RunFault("mov.u64 %rd5, 0; " + body, 1, module).kind, Fault::kTrap);
}

constexpr const char* kMeet = R"(
setp.ne.u32 %p1, %r0, 0;
bar.sync 0;
@%p1 bra meet;
atom.add.acq_rel.gpu.u32 %r2, [%rd5], 1;
wait:
ld.acquire.gpu.u32 %r2, [%rd5];
setp.ne.u32 %p2, %r2, %nctaid.x;
@%p2 bra wait;
meet:
bar.sync 0;
)";

TEST_F(LaunchTest, BlocksOfACooperativeLaunchWaitForEachOther) {
  Shape shape;
  shape.grid[0] = 40;
  shape.block[0] = 64;
  shape.cooperative = true;
  const Fault fault = RunText(Module("mov.u32 %r3, %envreg1; mov.u32 %r4, %envreg2; mov.b64 %rd5, {%r4, %r3};" +
                                     std::string(kMeet) + "red.global.add.u32 [%rd0+2048], 1; mov.u32 %r1, 5;"),
                              shape);
  ASSERT_EQ(fault.kind, Fault::kNone) << fault.text;
  EXPECT_EQ(machine.buffer[512], 40u * 64);
}

TEST_F(LaunchTest, BlocksOfOrdinaryLaunchesMayWaitToo) {
  Shape shape;
  shape.grid[0] = 3;
  shape.block[0] = 32;
  const Fault fault = RunText(Module("add.u64 %rd5, %rd0, 2048;" + std::string(kMeet) + "mov.u32 %r1, 5;"), shape);
  EXPECT_EQ(fault.kind, Fault::kNone) << fault.text;
}

TEST_F(LaunchTest, AWaitForTheHostEnds) {
  std::string error;
  program = Program::Read(
      Module("wait: ld.volatile.global.u32 %r1, [%rd0+2048]; setp.eq.u32 %p1, %r1, 0; @%p1 bra wait;"), error);
  ASSERT_NE(program, nullptr) << error;
  const uint64_t out = TestMachine::kBuffer;
  std::thread launch([&] {
    EXPECT_EQ(program->Launch(*program->FindKernel("k"), {}, std::as_bytes(std::span(&out, 1)), machine).kind,
              Fault::kNone);
  });
  std::atomic_ref<uint32_t>(machine.buffer[512]).store(9);
  launch.join();
  EXPECT_EQ(machine.buffer[0], 9u);
}

TEST_F(LaunchTest, EndlessKernelsAreStopped) {
  machine.stopped = true;
  EXPECT_EQ(RunFault("loop: bra loop;").kind, Fault::kStopped);
  EXPECT_EQ(RunFault("loop: ld.volatile.global.u32 %r2, [%rd0]; bra loop;").kind, Fault::kStopped);
}

TEST_F(LaunchTest, LaunchesThatTheKernelDoesNotTake) {
  Shape shape;
  shape.block = {1024, 2, 1};
  EXPECT_EQ(RunText(Module("mov.u32 %r1, 0;"), shape).kind, Fault::kInvalidLaunch);
  shape.block = {1, 1, 1};
  shape.grid = {0, 1, 1};
  EXPECT_EQ(RunText(Module("mov.u32 %r1, 0;"), shape).kind, Fault::kInvalidLaunch);
  shape.grid = {1, 1, 1};
  shape.dynamic_shared = 1 << 20;
  EXPECT_EQ(RunText(Module("mov.u32 %r1, 0;"), shape).kind, Fault::kInvalidLaunch);
  shape.dynamic_shared = 0;
  shape.block = {3, 1, 1};
  EXPECT_THAT(RunText(kHead + ".entry k(.param .u64 out) .reqntid 4 { ret; }", shape).text, HasSubstr(".reqntid"));
  shape.block = {5, 1, 1};
  EXPECT_THAT(RunText(kHead + ".entry k(.param .u64 out) .maxntid 2, 2, 1 { ret; }", shape).text, HasSubstr("takes 4"));
  EXPECT_THAT(RunText(kHead + ".entry k() { ret; }", {}).text, HasSubstr("8 bytes of parameters, expected 0"));
}

TEST_F(LaunchTest, SharedMemoryIsNotZeroAtFirst) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[4]; ld.shared.u32 %r1, [s];", 2), Each(0xa5a5a5a5));
}

}  // namespace
}  // namespace callout::software_gpu::ptx
