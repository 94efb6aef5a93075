// SPDX-License-Identifier: Apache-2.0
#include "ptx/bits.h"

#include <gtest/gtest.h>

#include "ptx/evaluate.h"

namespace callout::software_gpu::ptx {
namespace {

TEST(BitsTest, LogicIsOfAsManyBitsAsTheTypeHas) {
  ExpectAll({
      {"and.pred", {1, 3}, 1},
      {"and.pred", {1, 2}, 0},
      {"or.pred", {0, 1}, 1},
      {"xor.pred", {1, 1}, 0},
      {"not.pred", {0}, 1},
      {"not.pred", {1}, 0},
      {"and.b16", {0x1ff00, 0x10ff0}, 0xf00},
      {"or.b16", {0xf000, 0x000f}, 0xf00f},
      {"xor.b16", {0xffff, 0x0ff0}, 0xf00f},
      {"not.b16", {0xff00}, 0xff},
      {"and.b32", {0xffff0000, 0x00ffff00}, 0x00ff0000},
      {"or.b32", {1, 0x80000000}, 0x80000001},
      {"xor.b32", {0xffffffff, 1}, 0xfffffffe},
      {"not.b32", {0}, 0xffffffff},
      {"and.b64", {kOnes, 5}, 5},
      {"or.b64", {kOnes, 5}, kOnes},
      {"xor.b64", {kOnes, 5}, kOnes - 5},
      {"not.b64", {5}, kOnes - 5},
      {"cnot.b16", {0x10000}, 1},
      {"cnot.b16", {1}, 0},
      {"cnot.b32", {0}, 1},
      {"cnot.b32", {0x80000000}, 0},
      {"cnot.b64", {0x100000000}, 0},
  });
}

TEST(BitsTest, MovesKeepTheBitsOfTheType) {
  ExpectAll({
      {"mov.pred", {3}, 1},
      {"mov.b16", {0x12345678}, 0x5678},
      {"mov.u16", {0x12345678}, 0x5678},
      {"mov.s16", {0xffff8000}, 0x8000},
      {"mov.b32", {kOnes}, 0xffffffff},
      {"mov.u32", {5}, 5},
      {"mov.s32", {0xffffffff}, 0xffffffff},
      {"mov.f32", {F(1.5F)}, F(1.5F)},
      {"mov.f32", {0x7f800001}, 0x7f800001},
      {"mov.b64", {kOnes}, kOnes},
      {"mov.u64", {kOnes}, kOnes},
      {"mov.s64", {kOnes}, kOnes},
      {"mov.f64", {D(-0.0)}, D(-0.0)},
  });
}

TEST(BitsTest, ShiftsClampTheirCount) {
  ExpectAll({
      {"shl.b16", {1, 15}, 0x8000},
      {"shl.b16", {1, 16}, 0},
      {"shl.b32", {0x80000001, 1}, 2},
      {"shl.b32", {1, 31}, 0x80000000},
      {"shl.b32", {1, 32}, 0},
      {"shl.b32", {1, 33}, 0},
      {"shl.b32", {1, 0xffffffff}, 0},
      {"shl.b64", {1, 63}, 0x8000000000000000},
      {"shl.b64", {1, 64}, 0},
      {"shl.b64", {1, 0x100000001}, 2},
      {"shr.u16", {0x8000, 15}, 1},
      {"shr.u16", {0x8000, 16}, 0},
      {"shr.s16", {0x8000, 4}, 0xf800},
      {"shr.s16", {0x8000, 100}, 0xffff},
      {"shr.b16", {0x8000, 1}, 0x4000},
      {"shr.u32", {0x80000000, 31}, 1},
      {"shr.u32", {0xffffffff, 32}, 0},
      {"shr.b32", {0xffffffff, 33}, 0},
      {"shr.s32", {0x80000000, 31}, 0xffffffff},
      {"shr.s32", {0x80000000, 32}, 0xffffffff},
      {"shr.s32", {0x7fffffff, 33}, 0},
      {"shr.u64", {kOnes, 63}, 1},
      {"shr.u64", {kOnes, 64}, 0},
      {"shr.b64", {kOnes, 64}, 0},
      {"shr.s64", {0x8000000000000000, 63}, kOnes},
      {"shr.s64", {0x8000000000000000, 0xffffffff}, kOnes},
      {"shr.s64", {0x4000000000000000, 62}, 1},
  });
}

TEST(BitsTest, FunnelShiftsClampOrWrap) {
  const uint64_t low = 0x89abcdef;
  const uint64_t high = 0x01234567;
  ExpectAll({
      {"shf.l.wrap.b32", {low, high, 4}, 0x12345678},
      {"shf.l.wrap.b32", {low, high, 0}, high},
      {"shf.l.wrap.b32", {low, high, 36}, 0x12345678},
      {"shf.l.wrap.b32", {low, high, 32}, high},
      {"shf.l.clamp.b32", {low, high, 4}, 0x12345678},
      {"shf.l.clamp.b32", {low, high, 32}, low},
      {"shf.l.clamp.b32", {low, high, 40}, low},
      {"shf.r.wrap.b32", {low, high, 4}, 0x789abcde},
      {"shf.r.wrap.b32", {low, high, 36}, 0x789abcde},
      {"shf.r.wrap.b32", {low, high, 32}, low},
      {"shf.r.clamp.b32", {low, high, 4}, 0x789abcde},
      {"shf.r.clamp.b32", {low, high, 32}, high},
      {"shf.r.clamp.b32", {low, high, 0xffffffff}, high},
  });
}

TEST(BitsTest, ATableOfThreeInputsGivesAnyFunction) {
  const uint64_t a = 0xf0f0ff00;
  const uint64_t b = 0xcccc0ff0;
  const uint64_t c = 0xaaaa00ff;
  ExpectAll({
      {"lop3.b32", {a, b, c, 0x80}, a & b & c},
      {"lop3.b32", {a, b, c, 0xfe}, a | b | c},
      {"lop3.b32", {a, b, c, 0x96}, a ^ b ^ c},
      {"lop3.b32", {a, b, c, 0x40}, a & b & ~c},
      {"lop3.b32", {a, b, c, 0x1a}, ((a & b) | c) ^ a},
      {"lop3.b32", {a, b, c, 0xca}, (a & b) | (~a & c & 0xffffffff)},
      {"lop3.b32", {a, b, c, 0}, 0},
      {"lop3.b32", {a, b, c, 0xff}, 0xffffffff},
  });
}

TEST(BitsTest, BytesArePermuted) {
  const uint64_t a = 0x33221100;
  const uint64_t b = 0xf7665544;
  ExpectAll({
      {"prmt.b32", {a, b, 0x3210}, a},
      {"prmt.b32", {a, b, 0x7654}, b},
      {"prmt.b32", {a, b, 0x0123}, 0x00112233},
      {"prmt.b32", {a, b, 0xf8f7}, 0xff00fff7},
      {"prmt.b32", {a, b, 0xabcdc}, 0x00000000},
      {"prmt.b32.f4e", {a, b, 0}, a},
      {"prmt.b32.f4e", {a, b, 1}, 0x44332211},
      {"prmt.b32.f4e", {a, b, 3}, 0x66554433},
      {"prmt.b32.b4e", {a, b, 0}, 0x5566f700},
      {"prmt.b32.b4e", {a, b, 1}, 0x66f70011},
      {"prmt.b32.b4e", {a, b, 3}, 0x00112233},
      {"prmt.b32.rc8", {a, b, 2}, 0x22222222},
      {"prmt.b32.ecl", {a, b, 2}, 0x33222222},
      {"prmt.b32.ecl", {a, b, 0}, a},
      {"prmt.b32.ecr", {a, b, 2}, 0x22221100},
      {"prmt.b32.ecr", {a, b, 0}, 0},
      {"prmt.b32.rc16", {a, b, 0}, 0x11001100},
      {"prmt.b32.rc16", {a, b, 3}, 0x33223322},
  });
}

TEST(BitsTest, FieldsAreExtractedAndTheirSignRepeated) {
  ExpectAll({
      {"bfe.u32", {0x12345678, 8, 8}, 0x56},
      {"bfe.u32", {0xffffffff, 28, 8}, 0xf},
      {"bfe.u32", {0xffffffff, 32, 8}, 0},
      {"bfe.u32", {0xffffffff, 0, 32}, 0xffffffff},
      {"bfe.u32", {0xffffffff, 0, 255}, 0xffffffff},
      {"bfe.u32", {0xffffffff, 5, 0}, 0},
      {"bfe.u32", {0x12345678, 0x108, 0x108}, 0x56},
      {"bfe.s32", {0x00008000, 8, 8}, 0xffffff80},
      {"bfe.s32", {0x00007f00, 8, 8}, 0x7f},
      {"bfe.s32", {0x80000000, 28, 8}, 0xfffffff8},
      {"bfe.s32", {0x80000000, 40, 8}, 0xffffffff},
      {"bfe.s32", {0x40000000, 40, 8}, 0},
      {"bfe.s32", {0x80000000, 40, 0}, 0},
      {"bfe.u64", {0x123456789abcdef0, 32, 16}, 0x5678},
      {"bfe.u64", {kOnes, 0, 64}, kOnes},
      {"bfe.u64", {kOnes, 60, 200}, 0xf},
      {"bfe.s64", {0x0000800000000000, 32, 16}, 0xffffffffffff8000},
      {"bfe.s64", {0x8000000000000000, 100, 1}, kOnes},
      {"bfe.s64", {0x8000000000000000, 0, 64}, 0x8000000000000000},
  });
}

TEST(BitsTest, FieldsAreInserted) {
  ExpectAll({
      {"bfi.b32", {0xabcd, 0x11111111, 8, 8}, 0x1111cd11},
      {"bfi.b32", {0xffffffff, 0, 28, 8}, 0xf0000000},
      {"bfi.b32", {0xffffffff, 0x12345678, 0, 0}, 0x12345678},
      {"bfi.b32", {0xffffffff, 0x12345678, 32, 4}, 0x12345678},
      {"bfi.b32", {0xabcdef01, 0x12345678, 0, 32}, 0xabcdef01},
      {"bfi.b32", {0xabcdef01, 0x12345678, 0, 255}, 0xabcdef01},
      {"bfi.b64", {0xff, 0, 60, 8}, 0xf000000000000000},
      {"bfi.b64", {kOnes, 0, 0, 64}, kOnes},
      {"bfi.b64", {kOnes, 5, 64, 64}, 5},
      {"bfi.b64", {0xab, 0, 0x120, 0x108}, 0xab00000000},
  });
}

TEST(BitsTest, BitsAreFoundAndCounted) {
  ExpectAll({
      {"bfind.u32", {0}, 0xffffffff},
      {"bfind.u32", {1}, 0},
      {"bfind.u32", {0x80000000}, 31},
      {"bfind.s32", {0xffffffff}, 0xffffffff},
      {"bfind.s32", {0xfffffffe}, 0},
      {"bfind.s32", {0x80000000}, 30},
      {"bfind.s32", {0x40}, 6},
      {"bfind.u64", {0x8000000000000000}, 63},
      {"bfind.u64", {0}, 0xffffffff},
      {"bfind.s64", {kOnes}, 0xffffffff},
      {"bfind.s64", {0x8000000000000000}, 62},
      {"bfind.shiftamt.u32", {1}, 31},
      {"bfind.shiftamt.u32", {0}, 0xffffffff},
      {"bfind.shiftamt.s32", {0xfffffffe}, 31},
      {"bfind.shiftamt.u64", {1}, 63},
      {"bfind.shiftamt.s64", {0x8000000000000000}, 1},
      {"clz.b32", {0}, 32},
      {"clz.b32", {1}, 31},
      {"clz.b32", {0x100000001}, 31},
      {"clz.b64", {0}, 64},
      {"clz.b64", {0x100000000}, 31},
      {"popc.b32", {0xffffffff}, 32},
      {"popc.b32", {0x3f0000000f}, 4},
      {"popc.b64", {kOnes}, 64},
      {"brev.b32", {1}, 0x80000000},
      {"brev.b32", {0x12345678}, 0x1e6a2c48},
      {"brev.b64", {1}, 0x8000000000000000},
      {"brev.b64", {0x12345678}, 0x1e6a2c4800000000},
      {"fns.b32", {0xaaaaaaaa, 3, 1}, 3},
      {"fns.b32", {0xaaaaaaaa, 3, 0xffffffff}, 3},
      {"fns.b32", {0xaaaaaaaa, 2, 1}, 3},
      {"fns.b32", {0xaaaaaaaa, 2, 0xffffffff}, 1},
      {"fns.b32", {0xaaaaaaaa, 3, 0}, 3},
      {"fns.b32", {0xaaaaaaaa, 2, 0}, 0xffffffff},
      {"fns.b32", {0xaaaaaaaa, 0, 16}, 31},
      {"fns.b32", {0xaaaaaaaa, 0, 17}, 0xffffffff},
      {"fns.b32", {0xaaaaaaaa, 31, 0x80000000}, 0xffffffff},
  });
}

TEST(BitsTest, MasksAndExtensionsClampOrWrap) {
  ExpectAll({
      {"bmsk.clamp.b32", {1, 2}, 6},
      {"bmsk.wrap.b32", {1, 2}, 6},
      {"bmsk.clamp.b32", {32, 2}, 0},
      {"bmsk.wrap.b32", {33, 2}, 6},
      {"bmsk.clamp.b32", {4, 32}, 0xfffffff0},
      {"bmsk.clamp.b32", {0, 32}, 0xffffffff},
      {"bmsk.wrap.b32", {4, 32}, 0},
      {"bmsk.clamp.b32", {30, 5}, 0xc0000000},
      {"bmsk.clamp.b32", {5, 0}, 0},
      {"szext.clamp.s32", {0x80, 8}, 0xffffff80},
      {"szext.clamp.s32", {0x17f, 8}, 0x7f},
      {"szext.clamp.u32", {0x180, 8}, 0x80},
      {"szext.clamp.s32", {0x80, 0}, 0},
      {"szext.clamp.s32", {0x80000001, 32}, 0x80000001},
      {"szext.clamp.u32", {0x80000001, 40}, 0x80000001},
      {"szext.wrap.u32", {0xffffffff, 0}, 0},
      {"szext.wrap.u32", {0xffffffff, 32}, 0},
      {"szext.wrap.s32", {0x1f, 37}, 0xffffffff},
      {"szext.wrap.u32", {0x3f, 37}, 0x1f},
  });
}

}  // namespace
}  // namespace callout::software_gpu::ptx
