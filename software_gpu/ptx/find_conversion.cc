// SPDX-License-Identifier: Apache-2.0
// Decides which spellings of cvt are legal, and finds their functions.
#include "ptx/conversions.h"
#include "ptx/functions.h"

namespace callout::software_gpu::ptx {
namespace {

using Convertible = Types<Type::kU8, Type::kU16, Type::kU32, Type::kU64, Type::kS8, Type::kS16, Type::kS32, Type::kS64,
                          Type::kF16, Type::kBf16, Type::kF32, Type::kF64>;

/// True if every integer of `from` is one of `to`.
bool Contains(Type to, Type from) {
  if (IsSigned(from)) return IsSigned(to) && Bits(to) >= Bits(from);
  return IsSigned(to) ? Bits(to) > Bits(from) : Bits(to) >= Bits(from);
}

/// True if every float of `from` is one of `to`.
bool IsExact(Type to, Type from) { return to == from || (Bits(to) > Bits(from)); }

bool FloatsFit(const Spelling& spelling, uint32_t flush) {
  const Type to = spelling.first();
  const Type from = spelling.second();
  if (to == from && spelling.Has(kIntegerRoundingWord, flush | kSaturateWord)) return true;
  // bf16 does not allow .sat, and allows .relu only from f32.
  const uint32_t saturate = to == Type::kBf16 ? 0 : uint32_t{kSaturateWord};
  if (IsExact(to, from)) return spelling.Has(0, flush | saturate);
  if (from == Type::kF32 && Bits(to) == 16 && spelling.Has(kRoundingWord, kReluWord | kFiniteWord)) return true;
  return spelling.Has(kRoundingWord, flush | saturate);
}

/// True if a conversion of single values has the words that it needs, and no others than it allows.
bool WordsFit(const Spelling& spelling) {
  const Type to = spelling.first();
  const Type from = spelling.second();
  const uint32_t flush = to == Type::kF32 || from == Type::kF32 ? uint32_t{kFlushWord} : 0;
  if (IsFloat(to) && IsFloat(from)) return FloatsFit(spelling, flush);
  if (IsFloat(to)) return spelling.Has(kRoundingWord, flush | kSaturateWord);
  if (IsFloat(from)) return spelling.Has(kIntegerRoundingWord, flush | kSaturateWord);
  return spelling.Has(0, Contains(to, from) ? 0 : uint32_t{kSaturateWord});
}

Choice ChooseConvert(const Spelling& spelling) {
  if (!WordsFit(spelling) || spelling.how.rounding == Rounding::kRna) return {};
  return Choose(Convertible(), spelling.first(), [&]<Type to>() {
    return Choose(Convertible(), spelling.second(), []<Type from>() { return Of<Convert<to, from>>(); });
  });
}

Choice ChooseTf32(const Spelling& spelling) {
  const Rounding rounding = spelling.how.rounding;
  const bool away = rounding == Rounding::kRna && spelling.Has(kRoundingWord, kFiniteWord);
  const bool nearest =
      (rounding == Rounding::kRn || rounding == Rounding::kRz) && spelling.Has(kRoundingWord, kFiniteWord | kReluWord);
  return spelling.second() == Type::kF32 && (away || nearest) ? Of<Narrow<Type::kTf32, Type::kF32>>() : Choice{};
}

Choice ChooseToHalves(const Spelling& spelling) {
  const Rounding rounding = spelling.how.rounding;
  const bool nearest = rounding == Rounding::kRn;
  if (spelling.second() == Type::kF32 && (nearest || rounding == Rounding::kRz) &&
      spelling.Has(kRoundingWord, kReluWord | kFiniteWord)) {
    return Choose(PackedFloats16(), spelling.first(), []<Type t>() { return Of<NarrowTwo<t, Type::kF32>>(); });
  }
  if (spelling.first() != Type::kF16x2 || !nearest || !spelling.Has(kRoundingWord, kReluWord)) return {};
  return Choose(Types<Type::kE4m3x2, Type::kE5m2x2>(), spelling.second(),
                []<Type from>() { return Of<ConvertHalves<Type::kF16x2, from>>(); });
}

Choice ChooseToBytes(const Spelling& spelling) {
  const Type from = spelling.second();
  if (spelling.how.rounding != Rounding::kRn || !spelling.Has(kRoundingWord | kFiniteWord, kReluWord)) return {};
  return Choose(Types<Type::kE4m3x2, Type::kE5m2x2>(), spelling.first(), [&]<Type to>() {
    if (from == Type::kF32) return Of<NarrowTwo<to, Type::kF32>>();
    return Choose(PackedFloats16(), from, []<Type t>() { return Of<ConvertHalves<to, t>>(); });
  });
}

Choice ChooseConversion(const Spelling& spelling) {
  switch (spelling.first()) {
    case Type::kTf32:
      return ChooseTf32(spelling);
    case Type::kF16x2:
    case Type::kBf16x2:
      return ChooseToHalves(spelling);
    case Type::kE4m3x2:
    case Type::kE5m2x2:
      return ChooseToBytes(spelling);
    default:
      return ChooseConvert(spelling);
  }
}

Choice ChoosePack(const Spelling& spelling) {
  if (!spelling.Has(kSaturateWord) || spelling.types[1] != Type::kS32) return {};
  const Type to = spelling.types[0];
  if (spelling.type_count == 2) {
    return Choose(Types<Type::kU16, Type::kS16>(), to, []<Type t>() { return Of<ConvertPackTwo<t>>(); });
  }
  if (spelling.types[2] != Type::kB32) return {};
  return Choose(Types<Type::kU8, Type::kS8>(), to, []<Type t>() { return Of<ConvertPack<t>>(); });
}

}  // namespace

Operation FindConversion(const Spelling& spelling) {
  if (spelling.opcode == Opcode::kCvt) return Make(spelling, ChooseConversion(spelling));
  if (spelling.opcode != Opcode::kCvtPack) return {};
  Operation operation = Make(spelling, ChoosePack(spelling));
  operation.to = Type::kU32;
  return operation;
}

}  // namespace callout::software_gpu::ptx
