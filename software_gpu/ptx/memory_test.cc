// SPDX-License-Identifier: Apache-2.0
#include "ptx/kernel_fixture.h"

namespace callout::software_gpu::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class MemoryTest : public KernelTest {};

TEST_F(MemoryTest, LoadsExtendBySignedness) {
  machine.buffer[4] = 0x8001ff80;
  EXPECT_THAT(Run("ld.global.s8 %r1, [%rd0+16];"), ElementsAre(0xffffff80));
  EXPECT_THAT(Run("ld.global.u8 %r1, [%rd0+16];"), ElementsAre(0x80));
  EXPECT_THAT(Run("ld.global.s16 %r1, [%rd0+18];"), ElementsAre(0xffff8001));
  EXPECT_THAT(Run("ld.global.u16 %r1, [%rd0+18];"), ElementsAre(0x8001));
  EXPECT_THAT(Run("ld.global.b32 %r1, [%rd0+16];"), ElementsAre(0x8001ff80));
  EXPECT_THAT(Run("ld.global.s32 %rd2, [%rd0+16]; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r1, %rd2;"),
              ElementsAre(0xffffffff));
}

TEST_F(MemoryTest, StoresWriteTheLowBytesOnly) {
  machine.buffer[4] = machine.buffer[5] = 0xaaaaaaaa;
  Run("mov.u32 %r2, 0x11223344; st.global.u8 [%rd0+16], %r2; st.global.b16 [%rd0+20], %r2; mov.u32 %r1, 0;");
  EXPECT_EQ(machine.buffer[4], 0xaaaaaa44);
  EXPECT_EQ(machine.buffer[5], 0xaaaa3344);
}

TEST_F(MemoryTest, VectorsAreReadAndWrittenInOrder) {
  for (uint32_t i = 0; i < 4; ++i) machine.buffer[4 + i] = 10 + i;
  Run("ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd0+16]; st.global.v2.u32 [%rd0+32], {%r5,%r4};"
      "ld.global.v2.u64 {%rd2,%rd3}, [%rd0+16]; st.global.u64 [%rd0+40], %rd3;"
      "ld.global.v2.b16 {%h0,_}, [%rd0+16]; st.global.b16 [%rd0+48], { %h0 }; ld.global.b32 { %r1 }, [%rd0+16];"
      "mov.u32 %r1, 0;");
  EXPECT_EQ(machine.buffer[8], 13u);
  EXPECT_EQ(machine.buffer[9], 12u);
  EXPECT_EQ(machine.buffer[10], 12u);
  EXPECT_EQ(machine.buffer[11], 13u);
  EXPECT_EQ(machine.buffer[12], 10u);
  EXPECT_THAT(Run("ld.global.b32 { %r1 }, [%rd0+16]; st.global.b32 [%rd0+60], { %r1 };"), ElementsAre(10));
  EXPECT_EQ(machine.buffer[15], 10u);
}

TEST_F(MemoryTest, EveryQualifierOfLoadsAndStoresIsKnown) {
  for (const char* load :
       {"ld.weak.global", "ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.sys.global", "ld.global.ca",
        "ld.global.cg", "ld.global.cs", "ld.global.cv", "ld.global.lu", "ld.global.nc",
        "ld.global.nc.L1::no_allocate.L2::128B", "ld.mmio.relaxed.sys.global", "ld", "ldu.global"}) {
    machine.buffer[4] = 77;
    EXPECT_THAT(Run(std::string(load) + ".u32 %r1, [%rd0+16];"), ElementsAre(77)) << load;
  }
  for (const char* store : {"st.weak.global", "st.volatile.global", "st.relaxed.cta.global", "st.release.gpu.global",
                            "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt",
                            "st.mmio.relaxed.sys.global", "st", "st.global.L1::evict_last"}) {
    Run("mov.u32 %r1, 5; " + std::string(store) + ".u32 [%rd0+16], %r1;");
    EXPECT_EQ(machine.buffer[4], 5u) << store;
    machine.buffer[4] = 0;
  }
}

TEST_F(MemoryTest, SharedMemoryIsOfTheBlock) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[16]; shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r3, %r3, %r2;"
                  "st.shared.u32 [%r3], %r0; bar.sync 0; xor.b32 %r2, %r2, 12; mov.u32 %r3, s; add.u32 %r3, %r3, %r2;"
                  "ld.shared.u32 %r1, [%r3];",
                  4),
              ElementsAre(3, 2, 1, 0));
}

TEST_F(MemoryTest, SharedAddressesWrapIn32Bits) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[16]; mov.u32 %r2, 9; st.shared.u32 [s+4], %r2; mov.u32 %r3, -4;"
                  "ld.shared.u32 %r1, [%r3+8];"),
              ElementsAre(9));
}

TEST_F(MemoryTest, GenericAddressesReachEverySpace) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[8]; .local .align 4 .b8 l[8];"
                  "mov.u64 %rd2, s; cvta.shared.u64 %rd3, %rd2; mov.u32 %r2, 5; st.u32 [%rd3+4], %r2;"
                  "ld.shared.u32 %r3, [s+4];"
                  "mov.u64 %rd4, l; cvta.local.u64 %rd5, %rd4; st.u32 [%rd5], %r2; ld.local.u32 %r4, [l];"
                  "cvta.to.local.u64 %rd6, %rd5; ld.local.u32 %r5, [%rd6];"
                  "cvta.to.shared.u64 %rd7, %rd3; ld.shared.u32 %r6, [%rd7+4];"
                  "mov.u64 %rd8, out; cvta.param.u64 %rd9, %rd8; ld.u64 %rd10, [%rd9]; sub.u64 %rd10, %rd10, %rd0;"
                  "cvt.u32.u64 %r7, %rd10; add.u32 %r1, %r3, %r4; add.u32 %r1, %r1, %r5; add.u32 %r1, %r1, %r6;"
                  "add.u32 %r1, %r1, %r7;"),
              ElementsAre(20));
}

TEST_F(MemoryTest, IsspacepTellsTheWindow) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[8]; mov.u64 %rd2, s; cvta.shared.u64 %rd3, %rd2;"
                  "isspacep.shared %p1, %rd3; isspacep.global %p2, %rd3; isspacep.global %p3, %rd0;"
                  "isspacep.local %p4, %rd3; selp.u32 %r1, 1, 0, %p1; @%p2 add.u32 %r1, %r1, 2;"
                  "@%p3 add.u32 %r1, %r1, 4; @%p4 add.u32 %r1, %r1, 8;"),
              ElementsAre(5));
}

TEST_F(MemoryTest, LocalMemoryIsOfTheThread) {
  EXPECT_THAT(Run(".local .align 8 .b8 l[16]; mov.u64 %rd2, l; st.local.u32 [%rd2+8], %r0; bar.sync 0;"
                  "ld.local.u32 %r1, [l+8];",
                  3),
              ElementsAre(0, 1, 2));
}

TEST_F(MemoryTest, DynamicSharedMemoryLiesBehindTheStatic) {
  Shape shape;
  shape.dynamic_shared = 32;
  const Fault fault =
      RunText(Module(".shared .align 4 .b8 s[20]; mov.u32 %r2, d; mov.u32 %r3, 6; st.shared.u32 [d+28], %r3;"
                     "ld.shared.u32 %r4, [%r2+28]; mov.u32 %r5, %dynamic_smem_size;"
                     "mov.u32 %r6, s; add.u32 %r1, %r2, %r4; add.u32 %r1, %r1, %r5;",
                     ".extern .shared .align 16 .b8 d[];"),
              shape);
  ASSERT_EQ(fault.kind, Fault::kNone) << fault.text;
  EXPECT_EQ(machine.buffer[0], 32u + 6 + 32);  // 20 is rounded up to 32
  EXPECT_EQ(program->FindKernel("k")->shared_bytes, 20u);
}

TEST_F(MemoryTest, KernelsHaveOnlyTheSharedVariablesThatTheyUse) {
  std::string error;
  auto read = Program::Read(kHead +
                                ".shared .align 4 .b8 a[40];\n.shared .align 4 .b8 b[400];\n"
                                ".entry ka() { .reg .b32 %r<2>; mov.u32 %r0, a; }\n"
                                ".entry kb() { .reg .b32 %r<2>; ld.shared.u32 %r0, [b]; }\n"
                                ".entry none() { ret; }",
                            error);
  ASSERT_NE(read, nullptr) << error;
  EXPECT_EQ(read->FindKernel("ka")->shared_bytes, 40u);
  EXPECT_EQ(read->FindKernel("kb")->shared_bytes, 400u);
  EXPECT_EQ(read->FindKernel("none")->shared_bytes, 0u);
}

TEST_F(MemoryTest, SharedVariablesOfCalledFunctionsLieBeforeTheKernels) {
  EXPECT_THAT(
      Run(".shared .align 4 .b8 own[8]; mov.u32 %r2, 1; st.shared.u32 [own], %r2; call f; ld.shared.u32 %r1, [own];", 1,
          ".shared .align 4 .b8 theirs[8];\n"
          ".func f() { .reg .b32 %r<2>; mov.u32 %r0, 99; st.shared.u32 [theirs], %r0; ret; }\n"),
      ElementsAre(1));
}

TEST_F(MemoryTest, GlobalVariablesHaveTheirInitialBytes) {
  EXPECT_THAT(Run("ld.const.u32 %r2, [table+4]; mov.u64 %rd2, table; ld.u16 %r3, [%rd2+8]; add.u32 %r1, %r2, %r3;", 1,
                  ".const .align 4 .u32 table[3] = {7, 8, 9};\n"),
              ElementsAre(17));
}

TEST_F(MemoryTest, AccessesOutsideAllocationsAreIllegal) {
  for (const char* body :
       {"ld.global.u32 %r1, [%rd0+4096];", "ld.global.u32 %r1, [%rd0+-4];", "ld.u32 %r1, [8];",
        "mov.u64 %rd2, 0; st.global.u32 [%rd2], %r0;", "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+4096];",
        ".shared .align 4 .b8 s[8]; ld.shared.u32 %r1, [s+8];", ".local .align 4 .b8 l[8]; ld.local.u32 %r1, [l+8];",
        "mov.u64 %rd2, -4; ld.global.u32 %r1, [%rd2];"}) {
    EXPECT_EQ(RunFault(body).kind, Fault::kIllegalAddress) << body;
  }
}

TEST_F(MemoryTest, FaultsNameKernelThreadInstructionAndAddress) {
  const Fault fault = RunFault("setp.eq.u32 %p1, %r0, 2;\n@%p1 ld.global.u32 %r1, [%rd0+4096];", 4);
  EXPECT_EQ(fault.kind, Fault::kIllegalAddress);
  EXPECT_EQ(fault.text,
            "kernel k, block (0,0,0), thread (2,0,0), line 16, ld.global.u32: a read of 4 bytes at global address "
            "139637976735744");
}

TEST_F(MemoryTest, ConstantsCannotBeWritten) {
  EXPECT_EQ(RunFault("mov.u64 %rd2, 139637977776128; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd2], %r0;").kind,
            Fault::kIllegalAddress);
}

TEST_F(MemoryTest, MisalignedAccessesAreRefused) {
  for (const char* body :
       {"ld.global.u32 %r1, [%rd0+2];", "ld.global.u16 %r1, [%rd0+1];", "st.global.u64 [%rd0+4], %rd0;",
        "ld.global.v2.u32 {%r1,%r2}, [%rd0+4];", "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+8];",
        ".shared .align 8 .b8 s[8]; ld.shared.u32 %r1, [s+1];", "atom.global.add.u32 %r1, [%rd0+2], 1;"}) {
    EXPECT_EQ(RunFault(body).kind, Fault::kMisalignedAddress) << body;
  }
  EXPECT_THAT(RunFault("ld.global.u32 %r1, [%rd0+2];").text, HasSubstr("is no multiple of 4"));
}

TEST_F(MemoryTest, CopyAsyncCopiesAndFillsWithZeros) {
  for (uint32_t i = 0; i < 4; ++i) machine.buffer[4 + i] = 10 + i;
  EXPECT_THAT(Run(".shared .align 16 .b8 s[32]; mov.u32 %r2, s; cp.async.cg.shared.global [%r2], [%rd0+16], 16;"
                  "cp.async.ca.shared.global.L2::128B [%r2+16], [%rd0+16], 8, 4; cp.async.commit_group;"
                  "cp.async.wait_group 0; cp.async.wait_all; ld.shared.u32 %r3, [s+12]; ld.shared.u32 %r4, [s+16];"
                  "ld.shared.u32 %r5, [s+20]; add.u32 %r1, %r3, %r4; add.u32 %r1, %r1, %r5;"),
              ElementsAre(13 + 10));
}

}  // namespace
}  // namespace callout::software_gpu::ptx
