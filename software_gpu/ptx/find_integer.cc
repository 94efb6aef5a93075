// SPDX-License-Identifier: Apache-2.0
// Decides which spellings of integer arithmetic are legal, and finds their functions.
#include "ptx/float_arithmetic.h"
#include "ptx/functions.h"
#include "ptx/integer_arithmetic.h"

namespace callout::software_gpu::ptx {
namespace {

Type TwiceAsWide(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    default:
      return Type::kS64;
  }
}

Choice ChooseAdd(const Spelling& spelling) {
  const Type type = spelling.type();
  if (spelling.Has(kSaturateWord) && type == Type::kS32) return Of<AddSaturated<Type::kS32>>();
  if (!spelling.Has(0)) return {};
  if (IsPacked(type)) {
    return Choose(PackedIntegers(), type, []<Type t>() { return Of<BinaryHalves<t, Add<Element(t)>>>(); });
  }
  return Choose(Integers16To64(), type, []<Type t>() { return Of<Add<t>>(); });
}

Choice ChooseSub(const Spelling& spelling) {
  const Type type = spelling.type();
  if (spelling.Has(kSaturateWord) && type == Type::kS32) return Of<SubSaturated<Type::kS32>>();
  if (!spelling.Has(0)) return {};
  if (IsPacked(type)) {
    return Choose(PackedIntegers(), type, []<Type t>() { return Of<BinaryHalves<t, Sub<Element(t)>>>(); });
  }
  return Choose(Integers16To64(), type, []<Type t>() { return Of<Sub<t>>(); });
}

Choice ChooseMul(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!spelling.Has(kPartWord)) return {};
  switch (spelling.how.part) {
    case Part::kLo:
      return Choose(Integers16To64(), type, []<Type t>() { return Of<MulLow<t>>(); });
    case Part::kHi:
      return Choose(Integers16To64(), type, []<Type t>() { return Of<MulHigh<t>>(); });
    default:
      return Choose(Integers16And32(), type, []<Type t>() { return Of<MulWide<t>>(); });
  }
}

Choice ChooseIntegerMad(const Spelling& spelling) {
  const Type type = spelling.type();
  const Part part = spelling.how.part;
  if (spelling.Has(kPartWord | kSaturateWord) && part == Part::kHi && type == Type::kS32) {
    return Of<MadHighSaturated<Type::kS32>>();
  }
  if (!spelling.Has(kPartWord)) return {};
  switch (part) {
    case Part::kLo:
      return Choose(Integers16To64(), type, []<Type t>() { return Of<MadLow<t>>(); });
    case Part::kHi:
      return Choose(Integers16To64(), type, []<Type t>() { return Of<MadHigh<t>>(); });
    default:
      return Choose(Integers16And32(), type, []<Type t>() { return Of<MadWide<t>>(); });
  }
}

Choice ChooseMul24(const Spelling& spelling) {
  if (!spelling.Has(kPartWord) || spelling.how.part == Part::kWide) return {};
  return spelling.how.part == Part::kLo
             ? Choose(Integers32(), spelling.type(), []<Type t>() { return Of<Mul24Low<t>>(); })
             : Choose(Integers32(), spelling.type(), []<Type t>() { return Of<Mul24High<t>>(); });
}

Choice ChooseMad24(const Spelling& spelling) {
  const Part part = spelling.how.part;
  if (spelling.Has(kPartWord | kSaturateWord) && part == Part::kHi && spelling.type() == Type::kS32) {
    return Of<Mad24HighSaturated<Type::kS32>>();
  }
  if (!spelling.Has(kPartWord) || part == Part::kWide) return {};
  return part == Part::kLo ? Choose(Integers32(), spelling.type(), []<Type t>() { return Of<Mad24Low<t>>(); })
                           : Choose(Integers32(), spelling.type(), []<Type t>() { return Of<Mad24High<t>>(); });
}

template <bool larger>
Choice ChooseIntegerExtreme(const Spelling& spelling) {
  const Type type = spelling.type();
  if (spelling.Has(kReluWord)) {
    if (type == Type::kS32) return larger ? Of<MaxRelu<Type::kS32>>() : Of<MinRelu<Type::kS32>>();
    if (type != Type::kS16x2) return {};
    return larger ? Of<BinaryHalves<Type::kS16x2, MaxRelu<Type::kS16>>>()
                  : Of<BinaryHalves<Type::kS16x2, MinRelu<Type::kS16>>>();
  }
  if (!spelling.Has(0)) return {};
  if (IsPacked(type)) {
    return Choose(PackedIntegers(), type, []<Type t>() {
      return larger ? Of<BinaryHalves<t, Max<Element(t)>>>() : Of<BinaryHalves<t, Min<Element(t)>>>();
    });
  }
  return Choose(Integers16To64(), type, []<Type t>() { return larger ? Of<Max<t>>() : Of<Min<t>>(); });
}

Choice ChooseDp4a(const Spelling& spelling) {
  if (!spelling.Has(0)) return {};
  return Choose(Integers32(), spelling.first(), [&]<Type a>() {
    return Choose(Integers32(), spelling.second(), []<Type b>() { return Of<Dp4a<a, b>>(); });
  });
}

Choice ChooseDp2a(const Spelling& spelling) {
  const Part part = spelling.how.part;
  if (!spelling.Has(kPartWord) || part == Part::kWide) return {};
  return Choose(Integers32(), spelling.first(), [&]<Type a>() {
    return Choose(Integers32(), spelling.second(),
                  [&]<Type b>() { return part == Part::kLo ? Of<Dp2a<a, b, 0>>() : Of<Dp2a<a, b, 2>>(); });
  });
}

/// Chooses for spellings with one type and no other word.
Choice ChoosePlain(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!spelling.Has(0)) return {};
  switch (spelling.opcode) {
    case Opcode::kDiv:
      return Choose(Integers16To64(), type, []<Type t>() { return Of<Div<t>>(); });
    case Opcode::kRem:
      return Choose(Integers16To64(), type, []<Type t>() { return Of<Rem<t>>(); });
    case Opcode::kSad:
      return Choose(Integers16To64(), type, []<Type t>() { return Of<Sad<t>>(); });
    case Opcode::kAbs:
      return Choose(Signed16To64(), type, []<Type t>() { return Of<Abs<t>>(); });
    case Opcode::kNeg:
      return Choose(Signed16To64(), type, []<Type t>() { return Of<Neg<t>>(); });
    default:
      return {};
  }
}

Choice ChooseInteger(const Spelling& spelling) {
  switch (spelling.opcode) {
    case Opcode::kAdd:
      return ChooseAdd(spelling);
    case Opcode::kSub:
      return ChooseSub(spelling);
    case Opcode::kMul:
      return ChooseMul(spelling);
    case Opcode::kMad:
      return ChooseIntegerMad(spelling);
    case Opcode::kMul24:
      return ChooseMul24(spelling);
    case Opcode::kMad24:
      return ChooseMad24(spelling);
    case Opcode::kMin:
      return ChooseIntegerExtreme<false>(spelling);
    case Opcode::kMax:
      return ChooseIntegerExtreme<true>(spelling);
    case Opcode::kDp4a:
      return ChooseDp4a(spelling);
    case Opcode::kDp2a:
      return ChooseDp2a(spelling);
    default:
      return ChoosePlain(spelling);
  }
}

}  // namespace

Operation FindInteger(const Spelling& spelling) {
  Operation operation = Make(spelling, ChooseInteger(spelling));
  if (spelling.opcode == Opcode::kDp4a || spelling.opcode == Opcode::kDp2a) {
    const bool both = operation.to == Type::kU32 && operation.from == Type::kU32;
    operation.to = both ? Type::kU32 : Type::kS32;
  }
  if (operation.value && operation.how.part == Part::kWide) operation.to = TwiceAsWide(operation.from);
  return operation;
}

}  // namespace callout::software_gpu::ptx
