// SPDX-License-Identifier: Apache-2.0
// The words of PTX's arithmetic: opcodes, types and modifiers.
#pragma once

#include <cstdint>

namespace callout::software_gpu::ptx {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kBf16,
  kTf32,
  kF32,
  kF64,
  kE4m3,
  kE5m2,
  kF16x2,
  kBf16x2,
  kF32x2,
  kE4m3x2,
  kE5m2x2,
  kU16x2,
  kS16x2,
};

/// Opcodes of arithmetic only: the interpreter itself handles memory, other lanes and special registers.
enum class Opcode : uint8_t {
  kNone,
  kAbs,
  kAdd,
  kAddc,
  kAnd,
  kBfe,
  kBfi,
  kBfind,
  kBmsk,
  kBrev,
  kClz,
  kCnot,
  kCopysign,
  kCos,
  kCvt,
  kCvtPack,
  kDiv,
  kDp2a,
  kDp4a,
  kEx2,
  kFma,
  kFns,
  kLg2,
  kLop3,
  kMad,
  kMad24,
  kMadc,
  kMax,
  kMin,
  kMov,
  kMul,
  kMul24,
  kNeg,
  kNot,
  kOr,
  kPopc,
  kPrmt,
  kRcp,
  kRem,
  kRsqrt,
  kSad,
  kSelp,
  kSet,
  kSetp,
  kShf,
  kShl,
  kShr,
  kSin,
  kSlct,
  kSqrt,
  kSub,
  kSubc,
  kSzext,
  kTanh,
  kTestp,
  kXor,
};

/// The last four round to an integer in the float's own format.
enum class Rounding : uint8_t { kNone, kRn, kRz, kRm, kRp, kRna, kRni, kRzi, kRmi, kRpi };

/// Names that end in u are true for NaN; kLo to kHs compare as unsigned.
enum class Compare : uint8_t {
  kNone,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLo,
  kLs,
  kHi,
  kHs,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};

enum class BooleanOp : uint8_t { kNone, kAnd, kOr, kXor };

/// The part of a product; .hi is also used for dp2a's operand.
enum class Part : uint8_t { kNone, kLo, kHi, kWide };

/// The treatment of counts over 31 in a funnel shift, bmsk or szext.
enum class Overflow : uint8_t { kNone, kClamp, kWrap };

enum class Direction : uint8_t { kNone, kLeft, kRight };

enum class Permute : uint8_t { kNone, kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };

enum class FloatTest : uint8_t { kNone, kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };

enum class Precision : uint8_t { kNone, kApprox, kFull };

/// The words that follow an opcode besides its types.
struct Modifiers {
  Rounding rounding = Rounding::kNone;
  Compare compare = Compare::kNone;
  BooleanOp boolean = BooleanOp::kNone;
  Part part = Part::kNone;
  Overflow overflow = Overflow::kNone;
  Direction direction = Direction::kNone;
  Permute permute = Permute::kNone;
  FloatTest test = FloatTest::kNone;
  Precision precision = Precision::kNone;
  bool saturate = false;         // .sat
  bool saturate_finite = false;  // .satfinite
  bool flush = false;            // .ftz
  bool relu = false;
  bool nan = false;           // .NaN: returns a NaN if an input is NaN
  bool xorsign = false;       // .xorsign.abs
  bool carry_out = false;     // .cc
  bool shift_amount = false;  // .shiftamt
  bool operator==(const Modifiers&) const = default;
};

/// Returns the bits of a value in a register; 1 for a predicate, 0 for kNone.
constexpr int Bits(Type type) {
  switch (type) {
    case Type::kNone:
      return 0;
    case Type::kPred:
      return 1;
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
    case Type::kE4m3:
    case Type::kE5m2:
      return 8;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBf16:
    case Type::kE4m3x2:
    case Type::kE5m2x2:
      return 16;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
    case Type::kF32x2:
      return 64;
    case Type::kB128:
      return 128;
    default:
      return 32;
  }
}

constexpr bool IsSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }
constexpr bool IsUnsigned(Type type) { return type >= Type::kU8 && type <= Type::kU64; }
constexpr bool IsInteger(Type type) { return IsSigned(type) || IsUnsigned(type); }
constexpr bool IsUntyped(Type type) { return type >= Type::kB8 && type <= Type::kB128; }
/// Tests the type of one element.
constexpr bool IsFloat(Type type) { return type >= Type::kF16 && type <= Type::kE5m2; }
constexpr bool IsPacked(Type type) { return type >= Type::kF16x2; }

/// Returns the element type of a packed type; any other type is its own.
constexpr Type Element(Type type) {
  switch (type) {
    case Type::kF16x2:
      return Type::kF16;
    case Type::kBf16x2:
      return Type::kBf16;
    case Type::kF32x2:
      return Type::kF32;
    case Type::kE4m3x2:
      return Type::kE4m3;
    case Type::kE5m2x2:
      return Type::kE5m2;
    case Type::kU16x2:
      return Type::kU16;
    case Type::kS16x2:
      return Type::kS16;
    default:
      return type;
  }
}

/// Returns `value` with zeros above its low `bits`.
constexpr uint64_t ZeroExtend(uint64_t value, int bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

/// Returns `value` with bit `bits - 1` repeated above it.
constexpr uint64_t SignExtend(uint64_t value, int bits) {
  if (bits >= 64) return value;
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return (ZeroExtend(value, bits) ^ sign) - sign;
}

/// Returns the content of a register of `bits` for a value of `type`: ld and cvt fill a register that is wider than
/// their type.
constexpr uint64_t ToRegister(Type type, uint64_t value, int bits) {
  const uint64_t own = IsSigned(type) ? SignExtend(value, Bits(type)) : ZeroExtend(value, Bits(type));
  return ZeroExtend(own, bits);
}

}  // namespace callout::software_gpu::ptx
