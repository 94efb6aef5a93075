// SPDX-License-Identifier: Apache-2.0
// Decides which spellings of floating-point arithmetic are legal, and finds their functions.
#include "ptx/float_arithmetic.h"
#include "ptx/functions.h"

namespace callout::software_gpu::ptx {
namespace {

/// Returns the words allowed besides the rounding: .ftz and .sat for f32 and f16, .relu for fma of 16 bits.
uint32_t Allowed(Type type) {
  switch (type) {
    case Type::kF32:
    case Type::kF16:
    case Type::kF16x2:
      return kFlushWord | kSaturateWord;
    case Type::kF32x2:
      return kFlushWord;
    default:
      return 0;
  }
}

/// True if the type has the rounding. Types of 16 bits have only .rn.
bool RoundingFits(const Spelling& spelling) {
  const Rounding rounding = spelling.how.rounding;
  if (rounding == Rounding::kNone || rounding == Rounding::kRn) return true;
  return rounding != Rounding::kRna && Bits(Element(spelling.type())) > 16;
}

template <typename F>
Choice ChooseBinary(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!spelling.Has(0, kRoundingWord | Allowed(type)) || !RoundingFits(spelling)) return {};
  if (spelling.Has(0, kRoundingWord) && (spelling.words == 0 || spelling.how.rounding == Rounding::kRn)) {
    const Choice plain = Choose(Floats16To64(), type, []<Type t>() { return Of<PlainBinary<t, F>>(); });
    if (plain.function) return plain;
  }
  if (IsPacked(type)) {
    return Choose(Types<Type::kF16x2, Type::kBf16x2, Type::kF32x2>(), type,
                  []<Type t>() { return Of<BinaryHalves<t, Binary<Element(t), F>>>(); });
  }
  return Choose(Floats16To64(), type, []<Type t>() { return Of<Binary<t, F>>(); });
}

Choice ChooseFma(const Spelling& spelling) {
  const Type type = spelling.type();
  const uint32_t relu = Bits(Element(type)) == 16 && !spelling.how.saturate ? uint32_t{kReluWord} : 0;
  if (!spelling.Has(kRoundingWord, Allowed(type) | relu) || !RoundingFits(spelling)) return {};
  if (spelling.words == kRoundingWord && spelling.how.rounding == Rounding::kRn) {
    const Choice plain = Choose(Floats16To64(), type, []<Type t>() { return Of<PlainTernary<t, TimesPlus>>(); });
    if (plain.function) return plain;
  }
  if (IsPacked(type)) {
    return Choose(Types<Type::kF16x2, Type::kBf16x2, Type::kF32x2>(), type,
                  []<Type t>() { return Of<TernaryHalves<t, Ternary<Element(t), TimesPlus>>>(); });
  }
  return Choose(Floats16To64(), type, []<Type t>() { return Of<Ternary<t, TimesPlus>>(); });
}

/// Chooses mad of floats, which is fma.
Choice ChooseFloatMad(const Spelling& spelling) {
  return spelling.type() == Type::kF32 || spelling.type() == Type::kF64 ? ChooseFma(spelling) : Choice{};
}

/// True for div, rcp and sqrt with a rounding. .ftz is allowed for f32.
bool IsRounded(const Spelling& spelling) {
  const uint32_t flush = spelling.type() == Type::kF32 ? uint32_t{kFlushWord} : 0;
  return spelling.Has(kRoundingWord, flush) && spelling.how.rounding != Rounding::kRna;
}

template <typename F>
Choice ChooseRounded(const Spelling& spelling) {
  if (!IsRounded(spelling)) return {};
  return Choose(Floats32And64(), spelling.type(), []<Type t>() { return Of<Unary<t, F>>(); });
}

Choice ChooseRoundedDiv(const Spelling& spelling) {
  if (!IsRounded(spelling)) return {};
  return Choose(Floats32And64(), spelling.type(), []<Type t>() { return Of<Binary<t, Over>>(); });
}

bool SignMayFlush(const Spelling& spelling) {
  const Type type = Element(spelling.type());
  return spelling.Has(0, type == Type::kF32 || type == Type::kF16 ? uint32_t{kFlushWord} : 0);
}

Choice ChooseNeg(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!SignMayFlush(spelling)) return {};
  if (IsPacked(type)) {
    return Choose(PackedFloats16(), type, []<Type t>() { return Of<UnaryHalves<t, FloatNeg<Element(t)>>>(); });
  }
  return Choose(Floats16To64(), type, []<Type t>() { return Of<FloatNeg<t>>(); });
}

Choice ChooseAbs(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!SignMayFlush(spelling)) return {};
  if (IsPacked(type)) {
    return Choose(PackedFloats16(), type, []<Type t>() { return Of<UnaryHalves<t, FloatAbs<Element(t)>>>(); });
  }
  return Choose(Floats16To64(), type, []<Type t>() { return Of<FloatAbs<t>>(); });
}

template <bool larger>
Choice ChooseFloatExtreme(const Spelling& spelling, int inputs) {
  const Type type = spelling.type();
  const uint32_t flush = Element(type) == Type::kF32 || Element(type) == Type::kF16 ? uint32_t{kFlushWord} : 0;
  const uint32_t words = type == Type::kF64 ? 0 : flush | kNanWord | kXorsignWord;
  if (!spelling.Has(0, words)) return {};
  if (inputs == 3) return type == Type::kF32 ? Of<FloatExtreme3<Type::kF32, larger>>() : Choice{};
  if (IsPacked(type)) {
    return Choose(PackedFloats16(), type,
                  []<Type t>() { return Of<BinaryHalves<t, FloatExtreme<Element(t), larger>>>(); });
  }
  return Choose(Floats16To64(), type, []<Type t>() { return Of<FloatExtreme<t, larger>>(); });
}

Choice ChooseFloat(const Spelling& spelling, int inputs) {
  switch (spelling.opcode) {
    case Opcode::kAdd:
      return ChooseBinary<Plus>(spelling);
    case Opcode::kSub:
      return ChooseBinary<Minus>(spelling);
    case Opcode::kMul:
      return ChooseBinary<Times>(spelling);
    case Opcode::kFma:
      return ChooseFma(spelling);
    case Opcode::kMad:
      return ChooseFloatMad(spelling);
    case Opcode::kDiv:
      return ChooseRoundedDiv(spelling);
    case Opcode::kRcp:
      return ChooseRounded<OneOver>(spelling);
    case Opcode::kSqrt:
      return ChooseRounded<Root>(spelling);
    case Opcode::kNeg:
      return ChooseNeg(spelling);
    case Opcode::kAbs:
      return ChooseAbs(spelling);
    case Opcode::kMin:
      return ChooseFloatExtreme<false>(spelling, inputs);
    case Opcode::kMax:
      return ChooseFloatExtreme<true>(spelling, inputs);
    case Opcode::kCopysign:
      if (!spelling.Has(0)) return {};
      return Choose(Floats32And64(), spelling.type(), []<Type t>() { return Of<Copysign<t>>(); });
    default:
      return {};
  }
}

}  // namespace

Operation FindFloat(const Spelling& spelling, int inputs) { return Make(spelling, ChooseFloat(spelling, inputs)); }

}  // namespace callout::software_gpu::ptx
