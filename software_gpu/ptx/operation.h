// SPDX-License-Identifier: Apache-2.0
// Arithmetic instructions by their spelling, as functions on the values of registers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/types.h"

namespace callout::software_gpu::ptx {

inline constexpr int kWarpLanes = 32;

/// Computes one lane. Results are zero-extended; bits above an input's own width are ignored. A missing input is 0.
using LaneFunction = uint64_t (*)(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/// Computes every lane whose bit in `active` is set. Each array has 32 values; `to` may be one of the inputs.
using WarpFunction = void (*)(const Modifiers& how, uint64_t* to, const uint64_t* a, const uint64_t* b,
                              const uint64_t* c, const uint64_t* d, uint32_t active);

/// One way to compute a value, for a lane and for a warp.
struct Function {
  LaneFunction lane = nullptr;
  WarpFunction warp = nullptr;
  explicit operator bool() const { return lane != nullptr; }
};

/// An instruction. **Thread-safe.** Its functions are pure.
struct Operation {
  Opcode opcode = Opcode::kNone;
  Type to = Type::kNone;    // of the destination; for mul.wide and mad.wide the wider one
  Type from = Type::kNone;  // of the inputs
  Modifiers how;
  int inputs = 0;         // without the carry, but with the predicate with which setp combines
  bool carry_in = false;  // for addc, subc, madc: CC.CF is one more input, after the others
  Function value;
  Function second;  // from the same inputs: for setp the predicate after `|`, with .cc the new CC.CF
};

/// Returns the type of an immediate at input `index`, which may differ from `from`: the width of mad.wide's sum, a
/// count of shifts and fields, or a predicate.
Type TypeOfInput(const Operation& operation, int index);

/// Returns the operation of `spelling`, the part of an instruction before its operands ("fma.rn.f32"). If there is
/// none, the opcode is kNone and `why`, if given, receives what in the spelling is unknown or not allowed. `inputs`,
/// the number of operands that follow the destination, matters only to min and max, which take two or three.
/// **Thread-safe.**
Operation FindOperation(std::string_view spelling, std::string* why = nullptr, int inputs = 2);

}  // namespace callout::software_gpu::ptx
