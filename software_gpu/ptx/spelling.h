// SPDX-License-Identifier: Apache-2.0
// The words of an arithmetic instruction's spelling.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/types.h"

namespace callout::software_gpu::ptx {

/// Which kinds of words a spelling has, to refuse those that an instruction does not take.
enum Words : uint32_t {
  kRoundingWord = 1 << 0,         // .rn .rz .rm .rp .rna
  kIntegerRoundingWord = 1 << 1,  // .rni .rzi .rmi .rpi
  kCompareWord = 1 << 2,
  kBooleanWord = 1 << 3,
  kPartWord = 1 << 4,
  kOverflowWord = 1 << 5,
  kDirectionWord = 1 << 6,
  kPermuteWord = 1 << 7,
  kTestWord = 1 << 8,
  kPrecisionWord = 1 << 9,
  kSaturateWord = 1 << 10,
  kFiniteWord = 1 << 11,
  kFlushWord = 1 << 12,
  kReluWord = 1 << 13,
  kNanWord = 1 << 14,
  kXorsignWord = 1 << 15,  // .xorsign.abs
  kCarryWord = 1 << 16,
  kShiftAmountWord = 1 << 17,
};

struct Spelling {
  Opcode opcode = Opcode::kNone;
  std::array<Type, 3> types = {};
  int type_count = 0;
  Modifiers how;
  uint32_t words = 0;

  /// The only type; kNone if there is another number of them.
  Type type() const { return type_count == 1 ? types[0] : Type::kNone; }
  Type first() const { return type_count == 2 ? types[0] : Type::kNone; }
  Type second() const { return type_count == 2 ? types[1] : Type::kNone; }
  /// Whether each of `needed` is there, and nothing but them and `allowed`.
  bool Has(uint32_t needed, uint32_t allowed = 0) const {
    return (words & needed) == needed && (words & ~(needed | allowed)) == 0;
  }
};

/// Of a word without its dot; kNone if it is none.
Type TypeNamed(std::string_view word);

/// False, and `unknown` has the word, when one is not known or comes twice.
bool ReadSpelling(std::string_view text, Spelling& spelling, std::string& unknown);

}  // namespace callout::software_gpu::ptx
