// SPDX-License-Identifier: Apache-2.0
#include "ptx/spelling.h"

#include <utility>

namespace callout::software_gpu::ptx {
namespace {

template <typename Value, size_t size>
using Table = std::array<std::pair<std::string_view, Value>, size>;

constexpr auto kOpcodes = std::to_array<std::pair<std::string_view, Opcode>>({
    {"abs", Opcode::kAbs},     {"add", Opcode::kAdd},     {"addc", Opcode::kAddc},   {"and", Opcode::kAnd},
    {"bfe", Opcode::kBfe},     {"bfi", Opcode::kBfi},     {"bfind", Opcode::kBfind}, {"bmsk", Opcode::kBmsk},
    {"brev", Opcode::kBrev},   {"clz", Opcode::kClz},     {"cnot", Opcode::kCnot},   {"copysign", Opcode::kCopysign},
    {"cos", Opcode::kCos},     {"cvt", Opcode::kCvt},     {"div", Opcode::kDiv},     {"dp2a", Opcode::kDp2a},
    {"dp4a", Opcode::kDp4a},   {"ex2", Opcode::kEx2},     {"fma", Opcode::kFma},     {"fns", Opcode::kFns},
    {"lg2", Opcode::kLg2},     {"lop3", Opcode::kLop3},   {"mad", Opcode::kMad},     {"mad24", Opcode::kMad24},
    {"madc", Opcode::kMadc},   {"max", Opcode::kMax},     {"min", Opcode::kMin},     {"mov", Opcode::kMov},
    {"mul", Opcode::kMul},     {"mul24", Opcode::kMul24}, {"neg", Opcode::kNeg},     {"not", Opcode::kNot},
    {"or", Opcode::kOr},       {"popc", Opcode::kPopc},   {"prmt", Opcode::kPrmt},   {"rcp", Opcode::kRcp},
    {"rem", Opcode::kRem},     {"rsqrt", Opcode::kRsqrt}, {"sad", Opcode::kSad},     {"selp", Opcode::kSelp},
    {"set", Opcode::kSet},     {"setp", Opcode::kSetp},   {"shf", Opcode::kShf},     {"shl", Opcode::kShl},
    {"shr", Opcode::kShr},     {"sin", Opcode::kSin},     {"slct", Opcode::kSlct},   {"sqrt", Opcode::kSqrt},
    {"sub", Opcode::kSub},     {"subc", Opcode::kSubc},   {"szext", Opcode::kSzext}, {"tanh", Opcode::kTanh},
    {"testp", Opcode::kTestp}, {"xor", Opcode::kXor},
});

constexpr auto kTypes = std::to_array<std::pair<std::string_view, Type>>({
    {"pred", Type::kPred},     {"b8", Type::kB8},         {"b16", Type::kB16},       {"b32", Type::kB32},
    {"b64", Type::kB64},       {"b128", Type::kB128},     {"u8", Type::kU8},         {"u16", Type::kU16},
    {"u32", Type::kU32},       {"u64", Type::kU64},       {"s8", Type::kS8},         {"s16", Type::kS16},
    {"s32", Type::kS32},       {"s64", Type::kS64},       {"f16", Type::kF16},       {"bf16", Type::kBf16},
    {"tf32", Type::kTf32},     {"f32", Type::kF32},       {"f64", Type::kF64},       {"e4m3", Type::kE4m3},
    {"e5m2", Type::kE5m2},     {"f16x2", Type::kF16x2},   {"bf16x2", Type::kBf16x2}, {"f32x2", Type::kF32x2},
    {"e4m3x2", Type::kE4m3x2}, {"e5m2x2", Type::kE5m2x2}, {"u16x2", Type::kU16x2},   {"s16x2", Type::kS16x2},
});

constexpr auto kRoundings = std::to_array<std::pair<std::string_view, Rounding>>({
    {"rn", Rounding::kRn},
    {"rz", Rounding::kRz},
    {"rm", Rounding::kRm},
    {"rp", Rounding::kRp},
    {"rna", Rounding::kRna},
    {"rni", Rounding::kRni},
    {"rzi", Rounding::kRzi},
    {"rmi", Rounding::kRmi},
    {"rpi", Rounding::kRpi},
});

constexpr auto kCompares = std::to_array<std::pair<std::string_view, Compare>>({
    {"eq", Compare::kEq},
    {"ne", Compare::kNe},
    {"lt", Compare::kLt},
    {"le", Compare::kLe},
    {"gt", Compare::kGt},
    {"ge", Compare::kGe},
    {"lo", Compare::kLo},
    {"ls", Compare::kLs},
    {"hi", Compare::kHi},
    {"hs", Compare::kHs},
    {"equ", Compare::kEqu},
    {"neu", Compare::kNeu},
    {"ltu", Compare::kLtu},
    {"leu", Compare::kLeu},
    {"gtu", Compare::kGtu},
    {"geu", Compare::kGeu},
    {"num", Compare::kNum},
    {"nan", Compare::kNan},
});

constexpr auto kBooleans = std::to_array<std::pair<std::string_view, BooleanOp>>(
    {{"and", BooleanOp::kAnd}, {"or", BooleanOp::kOr}, {"xor", BooleanOp::kXor}});

constexpr auto kParts =
    std::to_array<std::pair<std::string_view, Part>>({{"lo", Part::kLo}, {"hi", Part::kHi}, {"wide", Part::kWide}});

constexpr auto kOverflows =
    std::to_array<std::pair<std::string_view, Overflow>>({{"clamp", Overflow::kClamp}, {"wrap", Overflow::kWrap}});

constexpr auto kDirections =
    std::to_array<std::pair<std::string_view, Direction>>({{"l", Direction::kLeft}, {"r", Direction::kRight}});

constexpr auto kPermutes = std::to_array<std::pair<std::string_view, Permute>>({
    {"f4e", Permute::kF4e},
    {"b4e", Permute::kB4e},
    {"rc8", Permute::kRc8},
    {"ecl", Permute::kEcl},
    {"ecr", Permute::kEcr},
    {"rc16", Permute::kRc16},
});

constexpr auto kTests = std::to_array<std::pair<std::string_view, FloatTest>>({
    {"finite", FloatTest::kFinite},
    {"infinite", FloatTest::kInfinite},
    {"number", FloatTest::kNumber},
    {"notanumber", FloatTest::kNotANumber},
    {"normal", FloatTest::kNormal},
    {"subnormal", FloatTest::kSubnormal},
});

constexpr auto kPrecisions =
    std::to_array<std::pair<std::string_view, Precision>>({{"approx", Precision::kApprox}, {"full", Precision::kFull}});

struct Flag {
  std::string_view word;
  uint32_t kind;
  bool Modifiers::* flag;
};

constexpr auto kFlags = std::to_array<Flag>({
    {"sat", kSaturateWord, &Modifiers::saturate},
    {"satfinite", kFiniteWord, &Modifiers::saturate_finite},
    {"ftz", kFlushWord, &Modifiers::flush},
    {"relu", kReluWord, &Modifiers::relu},
    {"NaN", kNanWord, &Modifiers::nan},
    {"cc", kCarryWord, &Modifiers::carry_out},
    {"shiftamt", kShiftAmountWord, &Modifiers::shift_amount},
});

template <typename Value, size_t size>
Value Named(const Table<Value, size>& table, std::string_view word) {
  for (const auto& [name, value] : table) {
    if (name == word) return value;
  }
  return Value{};
}

/// Returns whether `word` is in `table`; if so, sets `field` to its value and adds `kind` to the words.
template <typename Value, size_t size>
bool TakeWord(const Table<Value, size>& table, std::string_view word, uint32_t kind, Value& field, uint32_t& words) {
  const Value value = Named(table, word);
  if (value == Value{} || (words & kind) != 0) return false;
  field = value;
  words |= kind;
  return true;
}

bool TakeFlag(std::string_view word, Spelling& spelling) {
  for (const Flag& flag : kFlags) {
    if (flag.word != word || (spelling.words & flag.kind) != 0) continue;
    spelling.how.*flag.flag = true;
    spelling.words |= flag.kind;
    return true;
  }
  return false;
}

bool Take(std::string_view word, Spelling& spelling) {
  Modifiers& how = spelling.how;
  uint32_t& words = spelling.words;
  if (const Type type = TypeNamed(word); type != Type::kNone) {
    if (spelling.type_count == static_cast<int>(spelling.types.size())) return false;
    spelling.types[static_cast<size_t>(spelling.type_count++)] = type;
    return true;
  }
  const bool compares = spelling.opcode == Opcode::kSet || spelling.opcode == Opcode::kSetp;
  if (compares && TakeWord(kCompares, word, kCompareWord, how.compare, words)) return true;
  if (const Rounding rounding = Named(kRoundings, word); rounding != Rounding::kNone) {
    const uint32_t kind = rounding >= Rounding::kRni ? kIntegerRoundingWord : kRoundingWord;
    return (words & (kRoundingWord | kIntegerRoundingWord)) == 0 &&
           TakeWord(kRoundings, word, kind, how.rounding, words);
  }
  return TakeFlag(word, spelling) || TakeWord(kBooleans, word, kBooleanWord, how.boolean, words) ||
         TakeWord(kParts, word, kPartWord, how.part, words) ||
         TakeWord(kOverflows, word, kOverflowWord, how.overflow, words) ||
         TakeWord(kDirections, word, kDirectionWord, how.direction, words) ||
         TakeWord(kPermutes, word, kPermuteWord, how.permute, words) ||
         TakeWord(kTests, word, kTestWord, how.test, words) ||
         TakeWord(kPrecisions, word, kPrecisionWord, how.precision, words);
}

}  // namespace

Type TypeNamed(std::string_view word) { return Named(kTypes, word); }

bool ReadSpelling(std::string_view text, Spelling& spelling, std::string& unknown) {
  const auto next = [&text] {
    const size_t end = text.find('.');
    const std::string_view word = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    return word;
  };
  if (text.ends_with('.')) {
    unknown = "";
    return false;
  }
  unknown = next();
  spelling.opcode = Named(kOpcodes, unknown);
  if (spelling.opcode == Opcode::kNone) return false;
  while (!text.empty()) {
    unknown = next();
    if (spelling.opcode == Opcode::kCvt && unknown == "pack") {
      spelling.opcode = Opcode::kCvtPack;
    } else if (unknown == "xorsign" && !spelling.how.xorsign && text.starts_with("abs")) {
      next();
      spelling.how.xorsign = true;
      spelling.words |= kXorsignWord;
    } else if (!Take(unknown, spelling)) {
      return false;
    }
  }
  return true;
}

}  // namespace callout::software_gpu::ptx
