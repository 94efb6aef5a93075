// SPDX-License-Identifier: Apache-2.0
// Decides which spellings of logic, shifts and bit fields are legal, and finds their functions.
#include "ptx/bits.h"
#include "ptx/functions.h"

namespace callout::software_gpu::ptx {
namespace {

using Shiftable =
    Types<Type::kB16, Type::kB32, Type::kB64, Type::kU16, Type::kU32, Type::kU64, Type::kS16, Type::kS32, Type::kS64>;
using Movable = Types<Type::kPred, Type::kB16, Type::kB32, Type::kB64, Type::kU16, Type::kU32, Type::kU64, Type::kS16,
                      Type::kS32, Type::kS64, Type::kF32, Type::kF64>;

Choice ChooseFunnelShift(const Modifiers& how) {
  const bool wraps = how.overflow == Overflow::kWrap;
  if (how.direction == Direction::kLeft) {
    return wraps ? Of<FunnelShift<Direction::kLeft, Overflow::kWrap>>()
                 : Of<FunnelShift<Direction::kLeft, Overflow::kClamp>>();
  }
  return wraps ? Of<FunnelShift<Direction::kRight, Overflow::kWrap>>()
               : Of<FunnelShift<Direction::kRight, Overflow::kClamp>>();
}

Choice ChoosePermute(Permute mode) {
  switch (mode) {
    case Permute::kF4e:
      return Of<Prmt<Permute::kF4e>>();
    case Permute::kB4e:
      return Of<Prmt<Permute::kB4e>>();
    case Permute::kRc8:
      return Of<Prmt<Permute::kRc8>>();
    case Permute::kEcl:
      return Of<Prmt<Permute::kEcl>>();
    case Permute::kEcr:
      return Of<Prmt<Permute::kEcr>>();
    case Permute::kRc16:
      return Of<Prmt<Permute::kRc16>>();
    default:
      return Of<Prmt<Permute::kNone>>();
  }
}

Choice ChooseSzext(Type type, Overflow overflow) {
  if (overflow == Overflow::kWrap) {
    return Choose(Integers32(), type, []<Type t>() { return Of<Szext<t, Overflow::kWrap>>(); });
  }
  return Choose(Integers32(), type, []<Type t>() { return Of<Szext<t, Overflow::kClamp>>(); });
}

Choice ChooseBfind(Type type, bool shift_amount) {
  if (shift_amount) return Choose(Integers32And64(), type, []<Type t>() { return Of<Bfind<t, true>>(); });
  return Choose(Integers32And64(), type, []<Type t>() { return Of<Bfind<t, false>>(); });
}

/// Chooses for opcodes that have words besides their type.
Choice ChooseModified(const Spelling& spelling) {
  const bool word = spelling.type() == Type::kB32;
  switch (spelling.opcode) {
    case Opcode::kShf:
      return word && spelling.Has(kDirectionWord | kOverflowWord) ? ChooseFunnelShift(spelling.how) : Choice{};
    case Opcode::kPrmt:
      return word && spelling.Has(0, kPermuteWord) ? ChoosePermute(spelling.how.permute) : Choice{};
    case Opcode::kBmsk:
      if (!word || !spelling.Has(kOverflowWord)) return {};
      return spelling.how.overflow == Overflow::kWrap ? Of<Bmsk<Overflow::kWrap>>() : Of<Bmsk<Overflow::kClamp>>();
    case Opcode::kSzext:
      return spelling.Has(kOverflowWord) ? ChooseSzext(spelling.type(), spelling.how.overflow) : Choice{};
    case Opcode::kBfind:
      return spelling.Has(0, kShiftAmountWord) ? ChooseBfind(spelling.type(), spelling.how.shift_amount) : Choice{};
    default:
      return {};
  }
}

Choice ChooseLogic(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!spelling.Has(0)) return {};
  switch (spelling.opcode) {
    case Opcode::kMov:
      return Choose(Movable(), type, []<Type t>() { return Of<Move<t>>(); });
    case Opcode::kAnd:
      return Choose(WordsAndPredicate(), type, []<Type t>() { return Of<And<t>>(); });
    case Opcode::kOr:
      return Choose(WordsAndPredicate(), type, []<Type t>() { return Of<Or<t>>(); });
    case Opcode::kXor:
      return Choose(WordsAndPredicate(), type, []<Type t>() { return Of<Xor<t>>(); });
    case Opcode::kNot:
      return Choose(WordsAndPredicate(), type, []<Type t>() { return Of<Not<t>>(); });
    case Opcode::kCnot:
      return Choose(Words16To64(), type, []<Type t>() { return Of<Cnot<t>>(); });
    case Opcode::kShl:
      return Choose(Words16To64(), type, []<Type t>() { return Of<Shl<t>>(); });
    case Opcode::kShr:
      return Choose(Shiftable(), type, []<Type t>() { return Of<Shr<t>>(); });
    default:
      return {};
  }
}

Choice ChooseField(const Spelling& spelling) {
  const Type type = spelling.type();
  if (!spelling.Has(0)) return {};
  switch (spelling.opcode) {
    case Opcode::kLop3:
      return type == Type::kB32 ? Of<Lop3>() : Choice{};
    case Opcode::kFns:
      return type == Type::kB32 ? Of<Fns>() : Choice{};
    case Opcode::kBfe:
      return Choose(Integers32And64(), type, []<Type t>() { return Of<Bfe<t>>(); });
    case Opcode::kBfi:
      return Choose(Words32And64(), type, []<Type t>() { return Of<Bfi<t>>(); });
    case Opcode::kClz:
      return Choose(Words32And64(), type, []<Type t>() { return Of<Clz<t>>(); });
    case Opcode::kPopc:
      return Choose(Words32And64(), type, []<Type t>() { return Of<Popc<t>>(); });
    case Opcode::kBrev:
      return Choose(Words32And64(), type, []<Type t>() { return Of<Brev<t>>(); });
    default:
      return {};
  }
}

}  // namespace

Operation FindBits(const Spelling& spelling) {
  for (const auto choose : {&ChooseLogic, &ChooseField, &ChooseModified}) {
    const Choice choice = choose(spelling);
    if (!choice.function) continue;
    Operation operation = Make(spelling, choice);
    const Opcode opcode = spelling.opcode;
    if (opcode == Opcode::kClz || opcode == Opcode::kPopc || opcode == Opcode::kBfind) operation.to = Type::kU32;
    return operation;
  }
  return {};
}

}  // namespace callout::software_gpu::ptx
