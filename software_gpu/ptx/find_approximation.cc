// SPDX-License-Identifier: Apache-2.0
// Decides which spellings of the approximate functions are legal, and finds their functions.
#include "ptx/approximations.h"
#include "ptx/functions.h"

namespace callout::software_gpu::ptx {
namespace {

/// Chooses for f32, where .ftz is allowed.
template <DoubleFunction function>
Choice ChooseSingle(const Spelling& spelling) {
  const bool legal = spelling.type() == Type::kF32 && spelling.Has(kPrecisionWord, kFlushWord);
  return legal ? Of<Approximate<Type::kF32, function>>() : Choice{};
}

/// Chooses for f32, and for the upper word of f64 with .ftz.
template <DoubleFunction function>
Choice ChooseReciprocal(const Spelling& spelling) {
  if (spelling.type() != Type::kF64) return ChooseSingle<function>(spelling);
  return spelling.Has(kPrecisionWord | kFlushWord) ? Of<ApproximateUpper<function>>() : Choice{};
}

Choice ChooseReciprocalRoot(const Spelling& spelling) {
  if (spelling.type() == Type::kF64 && spelling.Has(kPrecisionWord)) return Of<ReciprocalRootF64>();
  return ChooseReciprocal<ReciprocalRoot>(spelling);
}

template <DoubleFunction function>
Choice ChooseHalf(Type type) {
  if (IsPacked(type)) {
    return Choose(PackedFloats16(), type,
                  []<Type t>() { return Of<UnaryHalves<t, Approximate<Element(t), function>>>(); });
  }
  return Choose(Floats16(), type, []<Type t>() { return Of<Approximate<t, function>>(); });
}

Choice ChooseTanh(const Spelling& spelling) {
  if (!spelling.Has(kPrecisionWord)) return {};
  return spelling.type() == Type::kF32 ? ChooseSingle<Tanh>(spelling) : ChooseHalf<Tanh>(spelling.type());
}

/// Chooses ex2. .ftz is required for bf16, and not allowed for f16.
Choice ChooseExp2(const Spelling& spelling) {
  if (spelling.type() == Type::kF32) return ChooseSingle<Exp2>(spelling);
  const bool flushes = Element(spelling.type()) == Type::kBf16;
  return spelling.Has(kPrecisionWord | (flushes ? uint32_t{kFlushWord} : 0)) ? ChooseHalf<Exp2>(spelling.type())
                                                                             : Choice{};
}

Choice ChooseApproximateDiv(const Spelling& spelling) {
  if (spelling.type() != Type::kF32 || !spelling.Has(kPrecisionWord, kFlushWord)) return {};
  return spelling.how.precision == Precision::kFull ? Of<DivFull>() : Of<DivApproximate>();
}

Choice ChooseApproximation(const Spelling& spelling) {
  if (spelling.opcode == Opcode::kDiv) return ChooseApproximateDiv(spelling);
  if (spelling.how.precision != Precision::kApprox) return {};
  switch (spelling.opcode) {
    case Opcode::kRcp:
      return ChooseReciprocal<Reciprocal>(spelling);
    case Opcode::kRsqrt:
      return ChooseReciprocalRoot(spelling);
    case Opcode::kSqrt:
      return ChooseSingle<SquareRoot>(spelling);
    case Opcode::kSin:
      return ChooseSingle<Sine>(spelling);
    case Opcode::kCos:
      return ChooseSingle<Cosine>(spelling);
    case Opcode::kLg2:
      return ChooseSingle<Log2>(spelling);
    case Opcode::kEx2:
      return ChooseExp2(spelling);
    case Opcode::kTanh:
      return ChooseTanh(spelling);
    default:
      return {};
  }
}

}  // namespace

Operation FindApproximation(const Spelling& spelling) { return Make(spelling, ChooseApproximation(spelling)); }

}  // namespace callout::software_gpu::ptx
