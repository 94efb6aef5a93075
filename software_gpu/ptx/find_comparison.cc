// SPDX-License-Identifier: Apache-2.0
// Decides which spellings of comparisons, selections and tests are legal, and finds their functions.
#include "ptx/comparisons.h"
#include "ptx/functions.h"

namespace callout::software_gpu::ptx {
namespace {

using Comparable = Types<Type::kB16, Type::kB32, Type::kB64, Type::kU16, Type::kU32, Type::kU64, Type::kS16, Type::kS32,
                         Type::kS64, Type::kF16, Type::kBf16, Type::kF32, Type::kF64>;
using Selectable = Types<Type::kB16, Type::kB32, Type::kB64, Type::kU16, Type::kU32, Type::kU64, Type::kS16, Type::kS32,
                         Type::kS64, Type::kF32, Type::kF64>;

/// True if the type has the comparison. Untyped bits are equal or not; unsigned integers also have words of their own;
/// floats also have the words for NaN.
bool Compares(Type type, Compare compare) {
  const Type element = Element(type);
  if (IsUntyped(element)) return compare == Compare::kEq || compare == Compare::kNe;
  if (IsFloat(element)) return compare <= Compare::kGe || compare >= Compare::kEqu;
  if (IsUnsigned(element)) return compare <= Compare::kHs;
  return compare <= Compare::kGe;
}

bool MayFlush(const Spelling& spelling, Type type) {
  const bool flushes = Element(type) == Type::kF32 || Element(type) == Type::kF16;
  return spelling.Has(kCompareWord, kBooleanWord | (flushes ? uint32_t{kFlushWord} : 0));
}

template <bool second>
Choice ChooseSetp(const Spelling& spelling) {
  const bool combined = spelling.how.boolean != BooleanOp::kNone;
  if (IsPacked(spelling.type())) {
    return Choose(PackedFloats16(), spelling.type(), []<Type t>() { return Of<SetpHalf<t, second>>(); });
  }
  return Choose(Comparable(), spelling.type(), [&]<Type t>() {
    if (combined) return second ? Of<SetpNotWith<t>>() : Of<SetpWith<t>>();
    return second ? Of<SetpNot<t>>() : Of<Setp<t>>();
  });
}

Operation FindSetp(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!MayFlush(spelling, type) || !Compares(type, spelling.how.compare)) return {};
  Operation operation = Make(spelling, ChooseSetp<false>(spelling), ChooseSetp<true>(spelling));
  operation.to = Type::kPred;
  operation.inputs = spelling.how.boolean == BooleanOp::kNone ? 2 : 3;
  return operation;
}

template <Type to>
Choice ChooseSet(const Spelling& spelling) {
  return Choose(Comparable(), spelling.second(), []<Type from>() { return Of<Set<to, from>>(); });
}

template <Type to>
Choice ChooseSetHalves(const Spelling& spelling) {
  return Choose(PackedFloats16(), spelling.second(), []<Type from>() { return Of<SetHalves<to, from>>(); });
}

Choice ChooseSet(const Spelling& spelling) {
  const Type to = spelling.first();
  const Type from = spelling.second();
  if (IsPacked(from)) {
    if (to == Type::kU32 || to == Type::kS32) return ChooseSetHalves<Type::kU32>(spelling);
    if (to != from) return {};
    return to == Type::kF16x2 ? ChooseSetHalves<Type::kF16x2>(spelling) : ChooseSetHalves<Type::kBf16x2>(spelling);
  }
  if (to == Type::kU32 || to == Type::kS32) return ChooseSet<Type::kU32>(spelling);
  if (to == Type::kF32) return ChooseSet<Type::kF32>(spelling);
  const bool halves = from == Type::kF16 || from == Type::kBf16;
  if (halves && (to == Type::kU16 || to == Type::kS16)) return ChooseSet<Type::kU16>(spelling);
  if (to == Type::kF16) return ChooseSet<Type::kF16>(spelling);
  return to == Type::kBf16 && halves ? ChooseSet<Type::kBf16>(spelling) : Choice{};
}

Operation FindSet(const Spelling& spelling) {
  const Type from = spelling.second();
  if (!MayFlush(spelling, from) || !Compares(from, spelling.how.compare)) return {};
  Operation operation = Make(spelling, ChooseSet(spelling));
  operation.inputs = spelling.how.boolean == BooleanOp::kNone ? 2 : 3;
  return operation;
}

Choice ChooseSlct(const Spelling& spelling) {
  const Type of_c = spelling.second();
  if (of_c == Type::kF32 && spelling.Has(0, kFlushWord)) {
    return Choose(Selectable(), spelling.first(), []<Type t>() { return Of<Slct<t, Type::kF32>>(); });
  }
  if (of_c != Type::kS32 || !spelling.Has(0)) return {};
  return Choose(Selectable(), spelling.first(), []<Type t>() { return Of<Slct<t, Type::kS32>>(); });
}

template <FloatTest test>
Choice ChooseTest(Type type) {
  return Choose(Floats32And64(), type, []<Type t>() { return Of<Testp<t, test>>(); });
}

Choice ChooseTestp(const Spelling& spelling) {
  if (!spelling.Has(kTestWord)) return {};
  switch (spelling.how.test) {
    case FloatTest::kFinite:
      return ChooseTest<FloatTest::kFinite>(spelling.type());
    case FloatTest::kInfinite:
      return ChooseTest<FloatTest::kInfinite>(spelling.type());
    case FloatTest::kNumber:
      return ChooseTest<FloatTest::kNumber>(spelling.type());
    case FloatTest::kNotANumber:
      return ChooseTest<FloatTest::kNotANumber>(spelling.type());
    case FloatTest::kNormal:
      return ChooseTest<FloatTest::kNormal>(spelling.type());
    default:
      return ChooseTest<FloatTest::kSubnormal>(spelling.type());
  }
}

}  // namespace

Operation FindComparison(const Spelling& spelling) {
  switch (spelling.opcode) {
    case Opcode::kSetp:
      return FindSetp(spelling);
    case Opcode::kSet:
      return FindSet(spelling);
    case Opcode::kSelp:
      if (!spelling.Has(0)) return {};
      return Make(spelling, Choose(Selectable(), spelling.type(), []<Type t>() { return Of<Selp<t>>(); }));
    case Opcode::kSlct:
      return Make(spelling, ChooseSlct(spelling));
    case Opcode::kTestp: {
      Operation operation = Make(spelling, ChooseTestp(spelling));
      operation.to = Type::kPred;
      return operation;
    }
    default:
      return {};
  }
}

}  // namespace callout::software_gpu::ptx
