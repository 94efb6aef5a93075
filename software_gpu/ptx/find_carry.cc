// SPDX-License-Identifier: Apache-2.0
// Finds extended-precision arithmetic, which reads or writes the carry.
#include "ptx/functions.h"
#include "ptx/integer_arithmetic.h"

namespace callout::software_gpu::ptx {
namespace {

struct Pair {
  Choice value;
  Choice carry;
};

template <Type type>
Pair PairOf(const Spelling& spelling) {
  const bool low = spelling.how.part == Part::kLo;
  switch (spelling.opcode) {
    case Opcode::kAdd:
      return {Of<Add<type>>(), Of<CarryOfAddAlone<type>>()};
    case Opcode::kAddc:
      return {Of<AddCarry<type>>(), Of<CarryOfAdd<type>>()};
    case Opcode::kSub:
      return {Of<Sub<type>>(), Of<BorrowOfSubAlone<type>>()};
    case Opcode::kSubc:
      return {Of<SubBorrow<type>>(), Of<BorrowOfSub<type>>()};
    case Opcode::kMad:
      return low ? Pair{Of<MadLow<type>>(), Of<CarryOfMadLowAlone<type>>()}
                 : Pair{Of<MadHigh<type>>(), Of<CarryOfMadHighAlone<type>>()};
    default:
      return low ? Pair{Of<MadLowCarry<type>>(), Of<CarryOfMadLow<type>>()}
                 : Pair{Of<MadHighCarry<type>>(), Of<CarryOfMadHigh<type>>()};
  }
}

/// Returns the words that the opcode needs; ~0 if it knows no carry.
uint32_t Needed(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kSub:
      return kCarryWord;
    case Opcode::kMad:
      return kCarryWord | kPartWord;
    case Opcode::kAddc:
    case Opcode::kSubc:
      return 0;
    case Opcode::kMadc:
      return kPartWord;
    default:
      return ~uint32_t{0};
  }
}

}  // namespace

Operation FindCarry(const Spelling& spelling) {
  if (!spelling.Has(Needed(spelling.opcode), kCarryWord) || spelling.how.part == Part::kWide) return {};
  Pair pair;
  Choose(Integers32And64(), spelling.type(), [&]<Type t>() {
    pair = PairOf<t>(spelling);
    return pair.value;
  });
  Operation operation = Make(spelling, pair.value, spelling.how.carry_out ? pair.carry : Choice{});
  const Opcode opcode = spelling.opcode;
  operation.carry_in = opcode == Opcode::kAddc || opcode == Opcode::kSubc || opcode == Opcode::kMadc;
  if (operation.carry_in) --operation.inputs;
  return operation;
}

}  // namespace callout::software_gpu::ptx
