// SPDX-License-Identifier: Apache-2.0
// The words of an arithmetic instruction's spelling.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/types.h"

namespace callout::software_gpu::ptx {

/// The kinds of words that a spelling has. An instruction refuses kinds that it does not take.
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

  /// Returns the only type; kNone if the number of types is not one.
  Type type() const { return type_count == 1 ? types[0] : Type::kNone; }
  Type first() const { return type_count == 2 ? types[0] : Type::kNone; }
  Type second() const { return type_count == 2 ? types[1] : Type::kNone; }
  /// True if the spelling has all words of `needed`, and no others than those and `allowed`.
  bool Has(uint32_t needed, uint32_t allowed = 0) const {
    return (words & needed) == needed && (words & ~(needed | allowed)) == 0;
  }
};

/// Returns the type of a word without its dot; kNone if the word is no type.
Type TypeNamed(std::string_view word);

/// Reads a spelling. Returns false if a word is unknown or occurs twice, which `unknown` then names.
bool ReadSpelling(std::string_view text, Spelling& spelling, std::string& unknown);

}  // namespace callout::software_gpu::ptx
