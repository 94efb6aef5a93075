// SPDX-License-Identifier: Apache-2.0
#include "ptx/kernel_fixture.h"

namespace callout::software_gpu::ptx {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ReaderTest : public KernelTest {
 protected:
  const Program& Read(const std::string& text) {
    std::string error;
    program = Program::Read(kHead + text, error);
    EXPECT_NE(program, nullptr) << error;
    return *program;
  }
};

TEST_F(ReaderTest, KernelsHaveTheirParametersAndLimits) {
  const Program& read = Read(
      "// a comment\n/* another\n one */ .visible .entry one(.param .u8 a, .param .align 16 .b8 b[20], .param .u16 c,\n"
      ".param .u64 .ptr .global .align 32 d, .param .f32 e[3])\n.maxntid 128, 2\n.minnctapersm 2 .maxnreg 40\n{ ret; "
      "}\n"
      ".weak .entry two() .reqntid 8, 4, 2 { .local .align 8 .b8 l[24]; .reg .b32 %r<7>; ret; }\n");
  const Kernel* one = read.FindKernel("one");
  ASSERT_NE(one, nullptr);
  std::vector<std::array<uint32_t, 3>> places;
  for (const Parameter& parameter : one->parameters) {
    places.push_back({parameter.offset, parameter.bytes, parameter.alignment});
  }
  using Place = std::array<uint32_t, 3>;
  EXPECT_THAT(places,
              ElementsAre(Place{0, 1, 1}, Place{16, 20, 16}, Place{36, 2, 2}, Place{40, 8, 8}, Place{48, 12, 4}));
  EXPECT_EQ(one->parameters[3].name, "d");
  EXPECT_EQ(one->parameter_bytes, 60u);
  EXPECT_EQ(one->max_threads, 256u);
  EXPECT_EQ(one->required_block[0], 0u);
  const Kernel* two = read.FindKernel("two");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->max_threads, 64u);
  EXPECT_THAT(two->required_block, ElementsAre(8, 4, 2));
  EXPECT_EQ(two->local_bytes, 24u);
  EXPECT_EQ(two->registers, 7u);
  EXPECT_EQ(read.FindKernel("three"), nullptr);
}

TEST_F(ReaderTest, VariablesHaveTheirBytesAndRelocations) {
  const Program& read = Read(
      ".visible .global .align 8 .b8 bytes[6] = {1, 2, 0xff};\n.global .f32 f = 0f3f800000;\n.const .f64 d[2] = {1.5, "
      "-2.0};\n"
      ".extern .global .align 4 .u32 elsewhere;\n.global .u64 p[2] = {bytes, generic(f)+4};\n.global .s16 m[2][2] = "
      "{{1, 2}, {-3, 4}};\n"
      ".global .v4 .f32 v;\n.global .u32 sized[] = {1, 2, 3};\n");
  const Global* bytes = read.FindGlobal("bytes");
  EXPECT_EQ(bytes->bytes, 6u);
  EXPECT_EQ(bytes->alignment, 8u);
  EXPECT_TRUE(bytes->visible);
  EXPECT_THAT(bytes->initial, ElementsAre(std::byte{1}, std::byte{2}, std::byte{0xff}));
  EXPECT_EQ(read.FindGlobal("f")->initial[3], std::byte{0x3f});
  EXPECT_TRUE(read.FindGlobal("d")->constant);
  double values[2];
  std::memcpy(values, read.FindGlobal("d")->initial.data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(1.5, -2.0));
  EXPECT_TRUE(read.FindGlobal("elsewhere")->external);
  const Global* pointers = read.FindGlobal("p");
  ASSERT_EQ(pointers->relocations.size(), 2u);
  EXPECT_EQ(pointers->relocations[1].offset, 8u);
  EXPECT_EQ(pointers->relocations[1].variable, "f");
  EXPECT_EQ(pointers->relocations[1].addend, 4u);
  EXPECT_EQ(read.FindGlobal("m")->initial[4], std::byte{0xfd});
  EXPECT_EQ(read.FindGlobal("v")->bytes, 16u);
  EXPECT_EQ(read.FindGlobal("v")->alignment, 16u);
  EXPECT_EQ(read.FindGlobal("sized")->bytes, 12u);
}

TEST_F(ReaderTest, DebugInformationIsSkipped) {
  EXPECT_THAT(Run("\n.loc 1 2 3\n.loc\t1 4 5, function_name $L__info_string0, inlined_at 1 9 3\nmov.u32 %r1, 4;", 1,
                  ".file 1 \"/a/b.py\"\n.pragma \"x\";\n"),
              ElementsAre(4));
  Read(
      ".entry k() { ret; }\n.section .debug_abbrev\n{\n.b8 1 // x\n.b8 2\n$L1:\n.b32 $L1\n}\n.section .debug_loc { "
      "}\n");
}

TEST_F(ReaderTest, InlineAssemblyHasBlocksAndRegistersOfItsOwn) {
  EXPECT_THAT(Run("// begin inline asm\n{\n\t.reg.pred p;\n\tsetp.ne.u32 p, %r0, 7;\n\tselp.u32 %r1, 3, 4, p;\n}\n// "
                  "end inline asm\n"),
              ElementsAre(3));
}

TEST_F(ReaderTest, DeclarationsWithoutABodyMayComeFirst) {
  EXPECT_THAT(
      Run("call (%r1), f, (%r0);", 1,
          ".func (.reg .b32 r) f(.reg .b32 x);\n.func (.reg .b32 r) f(.reg .b32 x) { add.u32 r, x, 6; ret; }\n"),
      ElementsAre(6));
}

TEST_F(ReaderTest, WhatIsNotKnownFailsByNameAndLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned"},
      {"tex.2d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [t, {%r0,%r1}];", "expected ']'"},
      {"foo.u32 %r1, %r0;", "foo.u32"},
      {"add.u32.strange %r1, %r0, 1;", "add.u32.strange"},
      {"ld.global.strange.u32 %r1, [%rd0];", "ld.global.strange.u32: unknown modifier .strange"},
      {"ld.global.b128 %rd2, [%rd0];", "128 bits"},
      {"st.const.u32 [%rd0], %r1;", "constants are not written"},
      {"atom.global.nand.b32 %r1, [%rd0], 1;", "atom.global.nand.b32"},
      {"atom.global.add.b32 %r1, [%rd0], 1;", "no such type"},
      {"red.global.cas.b32 [%rd0], 1, 2;", "red has no such operation"},
      {"atom.local.add.u32 %r1, [%rd0], 1;", "of this state space"},
      {"shfl.down.b32 %r1, %r0, 1, 31;", "only .sync is known"},
      {"vote.all.pred %p1, %p2;", "only .sync is known"},
      {"redux.sync.mul.u32 %r1, %r0, -1;", "redux.sync.mul.u32"},
      {"barrier.cluster.arrive;", "clusters"},
      {"mapa.u64 %rd2, %rd0, 0;", "mapa.u64"},
      {"bra nowhere;", "unknown label nowhere"},
      {"call nothing;", "unknown function nothing"},
      {"call k, (%rd0);", "a call of a kernel"},
      {"mov.u32 %r1, %r99;", "unknown name %r99"},
      {"mov.u32 %r1, %pm0;", "unknown name %pm0"},
      {"mov.u32 %r1, %rd0;", "another size"},
      {"mov.u64 %r1, 0;", "another size"},
      {"add.f32 %f1, %f0, 1;", "an integer where a float is expected"},
      {"@%r0 mov.u32 %r1, 0;", "is no predicate"},
      {"add.u32 %r1, %p1, 0;", "is a predicate"},
      {"add.u32 %r1, %r0;", "operands"},
      {"ld.shared.u32 %r1, [out];", "another state space"},
      {"brx.idx %r0, nothing;", "unknown .branchtargets"},
      {".strange .b32 x;", "unknown directive '.strange'"},
      {"cp.async.bulk.commit_group;", "cp.async.bulk.commit_group"},
      {"alloca.u64 %rd2, 16;", "alloca.u64"},
      {"L: L: ret;", "twice"},
      {"fence.mbarrier_init.release.cluster;", "fence.mbarrier_init"},
      {"cvta.strange.u64 %rd2, %rd0;", "cvta.strange.u64"},
      {"isspacep.const %p1, %rd0;", "isspacep.const"},
      {"call (%r1), f;", "another number of results"},
  };
  for (const auto& [body, expected] : kCases) {
    const std::string error = ReadFails(Module(std::string("\n") + body, ".func f() { ret; }\n"));
    EXPECT_THAT(error, HasSubstr(expected)) << body;
    EXPECT_THAT(error, AnyOf(HasSubstr("PTX line 16:"), HasSubstr("PTX line 17:"))) << body;
  }
}

TEST_F(ReaderTest, ModulesThatAreNotKnownFailByName) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "no .version"},
      {"hello", "unknown directive 'hello'"},
      {".version 8.6\n.address_size 32", "64 bits"},
      {".version 8.6\n.alias a, b;", "unknown directive '.alias'"},
      {".version 8.6\n.tex .u64 t;", "unknown directive '.tex'"},
      {".version 8.6\n.entry k() .maxclusterrank 2 { }", ".maxclusterrank"},
      {".version 8.6\n.entry k() .maxntid 2000 { }", "a block of no such size"},
      {".version 8.6\n.global .u32 x[99999999999999999999];", "not an integer of 64 bits"},
      {".version 8.6\n.global .u32 x[99999999999];", "too large"},
      {".version 8.6\n.global .u32 x[65536][65536][65536];", "too large"},
      {".version 8.6\n.global .u32 x[2] = {1, 2, 3};", "more initializers"},
      {".version 8.6\n.global .u32 x;\n.global .u32 x;", "declared twice: x"},
      {".version 8.6\n.global .u64 x = y;", "unknown variable: y"},
      {".version 8.6\n.global .align 3 .u32 x;", "unknown alignment"},
      {".version 8.6\n.entry k() { ret; }\n.entry k() { ret; }", "defined twice: k"},
      {".version 8.6\n.entry k() { .reg .b32 %r<99999999>; }", "too many registers"},
      {".version 8.6\n.entry k() { .local .b8 l[9999999]; }", "too much local memory"},
      {".version 8.6\n.entry k() { /* ret; }", "a comment without an end"},
      {".version 8.6\n.entry k() { ret;", "a function without an end"},
      {".version 8.6\n.file 1 \"a", "a string without an end"},
      {".version 8.6\n.global .f32 x = 0f12;", "a float"},
      {".version 8.6\n#", "unknown character '#'"},
  };
  for (const auto& [text, expected] : kCases) EXPECT_THAT(ReadFails(text), HasSubstr(expected)) << text;
}

TEST_F(ReaderTest, NestingHasBounds) {
  const std::string head = kHead + ".entry k() { ";
  EXPECT_THAT(ReadFails(head + std::string(100000, '{')), HasSubstr("nested too deep"));
  EXPECT_THAT(ReadFails(head + "mov.b32 x, " + std::string(100000, '{')), HasSubstr("nested too deep"));
  EXPECT_THAT(ReadFails(kHead + ".global .u32 x[9] = " + std::string(100000, '{')), HasSubstr("nested too deep"));
}

const std::string kManyForms = kHead + R"(
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 4 .u32 g[3] = {1, 2, 3};
.const .f64 c = 0d3ff0000000000000;
.func (.param .b32 r) f(.param .align 8 .b8 p[16], .reg .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r0, [p+4]; st.param.b32 [r], %r0; ret; }
.visible .entry k(.param .u64 .ptr .global .align 16 out, .param .f32 y[2]) .maxntid 32, 1, 1 {
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<4>;
.shared .align 16 .b8 s[64]; .local .align 8 .b8 l[8];
ld.param.u64 %rd0, [out]; cvta.to.global.u64 %rd1, %rd0; mov.u32 %r0, %tid.x;
{ .param .align 8 .b8 a[16]; .param .b32 b; st.param.v2.b32 [a+8], {%r0, 7}; call.uni (b), f, (a, %r0); ld.param.b32 %r1, [b]; }
setp.lt.and.s32 %p0|%p1, %r0, -3, !%p2; @!%p1 bra $L_1; shfl.sync.bfly.b32 %r2|%p3, %r1, 0x10, 31, -1;
t: .branchtargets $L_1, $L_2; brx.idx %r0, t;
$L_1: atom.relaxed.gpu.global.cas.b32 %r3, [%rd1+4], %r0, 0b11; mov.b64 {%r4, _}, %rd1;
$L_2: fma.rn.f32 %f0, %f1, 0f3f800000, 1.5e-3; bar.red.or.pred %p0, 0, 32, !%p1; st.global.v4.f32 [%rd1], {%f0,%f1,%f2,%f3};
ret; }
)";

TEST_F(ReaderTest, TruncatedTextIsAnErrorAndNeverMore) {
  std::string error;
  ASSERT_NE(Program::Read(kManyForms, error), nullptr) << error;
  for (size_t size = 0; size < kManyForms.size(); ++size) {
    std::string why;
    if (Program::Read(kManyForms.substr(0, size), why) == nullptr) {
      EXPECT_THAT(why, HasSubstr("PTX line ")) << size;
    }
  }
}

TEST_F(ReaderTest, ChangedTextIsAnErrorOrAnotherProgram) {
  uint32_t random = 12345;
  const std::string signs = "{}()[]<>,;:=+-!|@._%$0a9\n\"";
  for (int i = 0; i < 4000; ++i) {
    std::string text = kManyForms;
    for (int change = 0; change < 3; ++change) {
      random = random * 1664525 + 1013904223;
      const size_t at = (random >> 8) % text.size();
      random = random * 1664525 + 1013904223;
      const char sign = signs[(random >> 8) % signs.size()];
      if (random & 128) {
        text[at] = sign;
      } else {
        text.erase(at, 1 + (random >> 28));
      }
    }
    std::string why;
    if (Program::Read(text, why) == nullptr) {
      EXPECT_THAT(why, HasSubstr("PTX line ")) << text;
    }
  }
}

}  // namespace
}  // namespace callout::software_gpu::ptx
