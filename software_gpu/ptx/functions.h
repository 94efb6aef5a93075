// SPDX-License-Identifier: Apache-2.0
// Makes operations from functions on values: `uint64_t F([const Modifiers&,] uint64_t a, ...)` of one to four values.
#pragma once

#include <bit>
#include <cstdint>

#include "ptx/operation.h"
#include "ptx/spelling.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

template <typename F>
struct Signature;
template <typename... Values>
struct Signature<uint64_t (*)(const Modifiers&, Values...)> {
  static constexpr int kInputs = sizeof...(Values);
  static constexpr bool kModified = true;
};
template <typename... Values>
struct Signature<uint64_t (*)(uint64_t, Values...)> {
  static constexpr int kInputs = 1 + sizeof...(Values);
  static constexpr bool kModified = false;
};

template <auto F>
uint64_t OfLane(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  using Of = Signature<decltype(F)>;
  const auto call = [&](auto... values) {
    if constexpr (Of::kModified) return F(how, values...);
    if constexpr (!Of::kModified) return F(values...);
  };
  if constexpr (Of::kInputs == 1) return call(a);
  if constexpr (Of::kInputs == 2) return call(a, b);
  if constexpr (Of::kInputs == 3) return call(a, b, c);
  if constexpr (Of::kInputs == 4) return call(a, b, c, d);
}

template <auto F>
void OfWarp(const Modifiers& modifiers, uint64_t* to, const uint64_t* a, const uint64_t* b, const uint64_t* c,
            const uint64_t* d, uint32_t active) {
  constexpr int kInputs = Signature<decltype(F)>::kInputs;
  const Modifiers how = modifiers;
  const auto lane = [&](int i) {
    return OfLane<F>(how, a[i], kInputs > 1 ? b[i] : 0, kInputs > 2 ? c[i] : 0, kInputs > 3 ? d[i] : 0);
  };
  if (active == ~uint32_t{0}) {
    for (int i = 0; i < kWarpLanes; ++i) to[i] = lane(i);
  } else {
    for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
      const int i = std::countr_zero(rest);
      to[i] = lane(i);
    }
  }
}

/// A function that was chosen, or none.
struct Choice {
  Function function;
  int inputs = 0;
};

template <auto F>
Choice Of() {
  return {{&OfLane<F>, &OfWarp<F>}, Signature<decltype(F)>::kInputs};
}

template <Type... types>
struct Types {};

using Words16To64 = Types<Type::kB16, Type::kB32, Type::kB64>;
using WordsAndPredicate = Types<Type::kPred, Type::kB16, Type::kB32, Type::kB64>;
using Signed16To64 = Types<Type::kS16, Type::kS32, Type::kS64>;
using Integers16To64 = Types<Type::kU16, Type::kU32, Type::kU64, Type::kS16, Type::kS32, Type::kS64>;
using Integers16And32 = Types<Type::kU16, Type::kU32, Type::kS16, Type::kS32>;
using Integers32And64 = Types<Type::kU32, Type::kU64, Type::kS32, Type::kS64>;
using Integers32 = Types<Type::kU32, Type::kS32>;
using Integers8To64 =
    Types<Type::kU8, Type::kU16, Type::kU32, Type::kU64, Type::kS8, Type::kS16, Type::kS32, Type::kS64>;
using Words32And64 = Types<Type::kB32, Type::kB64>;
using Floats32And64 = Types<Type::kF32, Type::kF64>;
using Floats16 = Types<Type::kF16, Type::kBf16>;
using Floats16To64 = Types<Type::kF16, Type::kBf16, Type::kF32, Type::kF64>;
using PackedFloats16 = Types<Type::kF16x2, Type::kBf16x2>;
using PackedIntegers = Types<Type::kU16x2, Type::kS16x2>;

/// Returns the result of `make` for `type` if it is one of `types`.
template <Type... types, typename Make>
Choice Choose(Types<types...> /*of*/, Type type, Make make) {
  Choice choice;
  static_cast<void>(((type == types && (choice = make.template operator()<types>(), true)) || ...));
  return choice;
}

inline Operation Make(const Spelling& spelling, const Choice& value, const Choice& second = {}) {
  Operation operation;
  if (!value.function) return operation;
  operation.opcode = spelling.opcode;
  operation.to = spelling.types[0];
  operation.from = spelling.types[spelling.type_count > 1 ? 1 : 0];
  operation.how = spelling.how;
  operation.inputs = value.inputs;
  operation.value = value.function;
  operation.second = second.function;
  return operation;
}

/// Find operations by families of opcodes. They return none if the spelling is not legal.
Operation FindInteger(const Spelling& spelling);
Operation FindCarry(const Spelling& spelling);
Operation FindBits(const Spelling& spelling);
Operation FindFloat(const Spelling& spelling, int inputs);
Operation FindApproximation(const Spelling& spelling);
Operation FindComparison(const Spelling& spelling);
Operation FindConversion(const Spelling& spelling);

}  // namespace callout::software_gpu::ptx
