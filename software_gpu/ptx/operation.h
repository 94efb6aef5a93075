// SPDX-License-Identifier: Apache-2.0
// Arithmetic instructions by their spelling, as functions on the values of registers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/types.h"

namespace callout::software_gpu::ptx {

inline constexpr int kWarpLanes = 32;

/// Values are zero-extended in results; what lies above an input's own bits is ignored. A missing input is 0.
using LaneFunction = uint64_t (*)(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/// The same of every lane whose bit in `active` is set. Each array has 32 values; `to` may be one of the inputs.
using WarpFunction = void (*)(const Modifiers& how, uint64_t* to, const uint64_t* a, const uint64_t* b,
                              const uint64_t* c, const uint64_t* d, uint32_t active);

/// One way of computing a value.
struct Function {
  LaneFunction lane = nullptr;
  WarpFunction warp = nullptr;
  explicit operator bool() const { return lane != nullptr; }
};

/// An instruction. **Thread-safe.** Its functions are pure: they keep nothing.
struct Operation {
  Opcode opcode = Opcode::kNone;
  Type to = Type::kNone;    // of the destination: of mul.wide and mad.wide the wider one
  Type from = Type::kNone;  // of the inputs
  Modifiers how;
  int inputs = 0;         // besides the carry, and with the predicate that setp combines with
  bool carry_in = false;  // of addc, subc, madc: CC.CF comes as one more input, after the others
  Function value;
  Function second;  // of setp the predicate after `|`, with .cc the new CC.CF; from the same inputs
};

/// What an immediate is as input `index`: of the width of the sum in mad.wide, a count of shifts and fields, a
/// predicate.
Type TypeOfInput(const Operation& operation, int index);

/// The operation of `spelling`, the part of an instruction before its operands ("fma.rn.f32"). When it is none, the
/// opcode is kNone and `why`, if given, says what the spelling has that is unknown or not allowed. `inputs`, how many
/// operands follow the destination, matters to min and max alone, which take two or three.
/// **Thread-safe.**
Operation FindOperation(std::string_view spelling, std::string* why = nullptr, int inputs = 2);

}  // namespace callout::software_gpu::ptx
