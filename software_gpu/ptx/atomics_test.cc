// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <thread>

#include "ptx/kernel_fixture.h"

namespace callout::software_gpu::ptx {
namespace {

using testing::Each;
using testing::ElementsAre;

class AtomicsTest : public KernelTest {
 protected:
  /// Returns the result of `operation` with `operands` on `old` in memory. Checks that %r1 is the old value.
  uint32_t After(uint32_t old, const std::string& operation, const std::string& operands) {
    machine.buffer[4] = old;
    EXPECT_THAT(Run("atom.global." + operation + " %r1, [%rd0+16], " + operands + ";"), ElementsAre(old)) << operation;
    return machine.buffer[4];
  }
  uint64_t After64(uint64_t old, const std::string& operation, const std::string& operands) {
    std::memcpy(machine.buffer + 4, &old, 8);
    Run("atom.global." + operation + " %rd2, [%rd0+16], " + operands + "; cvt.u32.u64 %r1, %rd2;");
    EXPECT_EQ(machine.buffer[0], static_cast<uint32_t>(old)) << operation;
    uint64_t now = 0;
    std::memcpy(&now, machine.buffer + 4, 8);
    return now;
  }
};

TEST_F(AtomicsTest, IntegersOf32Bits) {
  EXPECT_EQ(After(0xffffffff, "add.u32", "2"), 1u);
  EXPECT_EQ(After(5, "add.s32", "-7"), 0xfffffffeu);
  EXPECT_EQ(After(3, "min.u32", "0xffffffff"), 3u);
  EXPECT_EQ(After(3, "min.s32", "-1"), 0xffffffffu);
  EXPECT_EQ(After(3, "max.u32", "0xffffffff"), 0xffffffffu);
  EXPECT_EQ(After(3, "max.s32", "-1"), 3u);
  EXPECT_EQ(After(0b1100, "and.b32", "0b1010"), 0b1000u);
  EXPECT_EQ(After(0b1100, "or.b32", "0b1010"), 0b1110u);
  EXPECT_EQ(After(0b1100, "xor.b32", "0b1010"), 0b0110u);
  EXPECT_EQ(After(1, "exch.b32", "9"), 9u);
  EXPECT_EQ(After(1, "cas.b32", "1, 9"), 9u);
  EXPECT_EQ(After(2, "cas.b32", "1, 9"), 2u);
}

TEST_F(AtomicsTest, IncrementAndDecrementWrap) {
  EXPECT_EQ(After(3, "inc.u32", "4"), 4u);
  EXPECT_EQ(After(4, "inc.u32", "4"), 0u);
  EXPECT_EQ(After(9, "inc.u32", "4"), 0u);
  EXPECT_EQ(After(3, "dec.u32", "4"), 2u);
  EXPECT_EQ(After(0, "dec.u32", "4"), 4u);
  EXPECT_EQ(After(9, "dec.u32", "4"), 4u);
}

TEST_F(AtomicsTest, IntegersOf64Bits) {
  EXPECT_EQ(After64(0xffffffff, "add.u64", "1"), 0x100000000u);
  EXPECT_EQ(After64(5, "min.s64", "-1"), ~uint64_t{0});
  EXPECT_EQ(After64(5, "max.u64", "-1"), ~uint64_t{0});
  EXPECT_EQ(After64(5, "exch.b64", "7"), 7u);
  EXPECT_EQ(After64(5, "cas.b64", "5, 8"), 8u);
  EXPECT_EQ(After64(5, "or.b64", "0x100000000"), 0x100000005u);
}

TEST_F(AtomicsTest, Floats) {
  const uint32_t one = std::bit_cast<uint32_t>(1.0f);
  EXPECT_EQ(After(one, "add.f32", "0f40000000"), std::bit_cast<uint32_t>(3.0f));
  EXPECT_EQ(After64(std::bit_cast<uint64_t>(1.0), "add.f64", "0d4000000000000000"), std::bit_cast<uint64_t>(3.0));
  machine.buffer[4] = 0x3c003c00;  // 1, 1 as f16
  Run("mov.u32 %r2, 0x40003c00; red.global.add.noftz.f16x2 [%rd0+16], %r2; mov.u32 %r1, 0;");
  EXPECT_EQ(machine.buffer[4], 0x42004000u);  // 3, 2
  machine.buffer[4] = 0x3f803f80;             // 1, 1 as bf16
  Run("mov.u32 %r2, 0x40003f80; red.global.add.noftz.bf16x2 [%rd0+16], %r2; mov.u32 %r1, 0;");
  EXPECT_EQ(machine.buffer[4], 0x40404000u);
  Run("mov.b16 %h0, 0x3f80; atom.global.add.noftz.bf16 %h1, [%rd0+18], %h0; mov.u32 %r1, 0;");
  EXPECT_EQ(machine.buffer[4], 0x40804000u);
}

TEST_F(AtomicsTest, AddOfF32FlushesSubnormalsOfGlobalMemoryOnly) {
  EXPECT_EQ(After(1, "add.f32", "0f00000000"), 0u);
  EXPECT_THAT(Run(".shared .align 4 .b8 s[4]; mov.u32 %r2, 1; st.shared.u32 [s], %r2; mov.f32 %f0, 0f00000000;"
                  "atom.shared.add.f32 %f1, [s], %f0; ld.shared.u32 %r1, [s];"),
              ElementsAre(1));
}

TEST_F(AtomicsTest, VectorsOfF32) {
  machine.buffer[4] = machine.buffer[5] = std::bit_cast<uint32_t>(1.0f);
  Run("mov.f32 %f0, 0f3f800000; mov.f32 %f1, 0f40000000; atom.global.v2.f32.add {%f2,%f3}, [%rd0+16], {%f0,%f1};"
      "mov.b32 %r1, %f3;");
  EXPECT_EQ(machine.buffer[0], std::bit_cast<uint32_t>(1.0f));
  EXPECT_EQ(machine.buffer[4], std::bit_cast<uint32_t>(2.0f));
  EXPECT_EQ(machine.buffer[5], std::bit_cast<uint32_t>(3.0f));
}

TEST_F(AtomicsTest, CasOf16Bits) {
  machine.buffer[4] = 0x00050007;
  Run("mov.b16 %h0, 5; mov.b16 %h1, 6; atom.global.cas.b16 %h2, [%rd0+18], %h0, %h1; cvt.u32.u16 %r1, %h2;");
  EXPECT_EQ(machine.buffer[0], 5u);
  EXPECT_EQ(machine.buffer[4], 0x00060007u);
}

TEST_F(AtomicsTest, OrdersAndScopesAreKnown) {
  for (const char* words : {".relaxed.gpu", ".acquire.sys", ".release.cta", ".acq_rel.gpu", ""}) {
    machine.buffer[4] = 1;
    Run("atom" + std::string(words) + ".global.add.u32 %r1, [%rd0+16], 1; red" + words +
        ".global.add.u32 [%rd0+16], 1;"
        "membar.gl; fence.acq_rel.gpu; fence.sc.sys;");
    EXPECT_EQ(machine.buffer[4], 3u) << words;
  }
}

TEST_F(AtomicsTest, LanesAreCountedOneByOne) {
  machine.buffer[100] = 0;
  std::vector<uint32_t> old = Run("atom.global.add.u32 %r1, [%rd0+400], 1;", 70);
  EXPECT_EQ(machine.buffer[100], 70u);
  std::sort(old.begin(), old.end());
  for (uint32_t i = 0; i < 70; ++i) EXPECT_EQ(old[i], i);
}

TEST_F(AtomicsTest, SharedMemoryByItsGenericAddress) {
  EXPECT_THAT(Run(".shared .align 4 .b8 s[4]; mov.u32 %r2, 0; st.shared.u32 [s], %r2; bar.sync 0; mov.u64 %rd2, s;"
                  "cvta.shared.u64 %rd3, %rd2; red.add.u32 [%rd3], 1; bar.sync 0; ld.shared.u32 %r1, [s];",
                  40),
              Each(40));
}

TEST_F(AtomicsTest, LocalMemoryHasNone) {
  EXPECT_EQ(
      RunFault(".local .align 4 .b8 l[4]; mov.u64 %rd2, l; cvta.local.u64 %rd3, %rd2; atom.add.u32 %r1, [%rd3], 1;")
          .kind,
      Fault::kInvalidAddressSpace);
}

TEST_F(AtomicsTest, LaunchesOfSeveralThreadsOfTheHostLoseNothing) {
  std::string error;
  program = Program::Read(Module("mov.f32 %f0, 0f3f800000; red.global.add.f32 [%rd0+400], %f0;"
                                 "red.global.add.u32 [%rd0+404], 1; mov.u32 %r1, 0; ret;"),
                          error);
  ASSERT_NE(program, nullptr) << error;
  const uint64_t out = TestMachine::kBuffer;
  Shape shape;
  shape.block[0] = 64;
  shape.grid[0] = 50;
  const auto launch = [&] {
    EXPECT_EQ(program->Launch(*program->FindKernel("k"), shape, std::as_bytes(std::span(&out, 1)), machine).kind,
              Fault::kNone);
  };
  std::thread other(launch);
  launch();
  other.join();
  EXPECT_EQ(std::bit_cast<float>(machine.buffer[100]), 6400.0f);
  EXPECT_EQ(machine.buffer[101], 6400u);
}

}  // namespace
}  // namespace callout::software_gpu::ptx
