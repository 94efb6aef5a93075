// SPDX-License-Identifier: Apache-2.0
//
// What is known of an element type: the rows of callout/dtype_rows.h as a table.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "callout/dtype.h"

namespace callout::internal {

enum class FloatSpecials : uint8_t {
  kIeee,               ///< All-ones exponent: infinity and NaNs.
  kNanAtTop,           ///< "fn": only all ones is NaN, no infinity.
  kNanAtNegativeZero,  ///< "fnuz": one zero, one NaN, no infinity.
  kAllNumbers,         ///< Every pattern is a number.
  kPowerOfTwo,         ///< Nothing but an exponent; all ones is NaN.
};

/// A float of at most 16 bits. No bits: not one.
struct SmallFloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  FloatSpecials specials = FloatSpecials::kIeee;

  static constexpr SmallFloatFormat Ieee(int exponent_bits, int mantissa_bits, int bias) {
    return {exponent_bits, mantissa_bits, bias, FloatSpecials::kIeee};
  }
  static constexpr SmallFloatFormat NanAtTop(int exponent_bits, int mantissa_bits, int bias) {
    return {exponent_bits, mantissa_bits, bias, FloatSpecials::kNanAtTop};
  }
  static constexpr SmallFloatFormat NanAtNegativeZero(int exponent_bits, int mantissa_bits, int bias) {
    return {exponent_bits, mantissa_bits, bias, FloatSpecials::kNanAtNegativeZero};
  }
  static constexpr SmallFloatFormat AllNumbers(int exponent_bits, int mantissa_bits, int bias) {
    return {exponent_bits, mantissa_bits, bias, FloatSpecials::kAllNumbers};
  }
  static constexpr SmallFloatFormat PowerOfTwo(int exponent_bits, int bias) {
    return {exponent_bits, 0, bias, FloatSpecials::kPowerOfTwo};
  }
};

/// The columns are described in callout/dtype_rows.h.
struct DTypeRow {
  DType dtype = DType::kInvalid;
  int bits = 0;
  DTypeKind kind = DTypeKind::kUnknown;
  std::string_view short_name = "?";
  std::string_view numpy_name;
  std::string_view mlir_name;
  int vhlo_code = -1;
  int dlpack_code = -1;
  const char* letter = "";
  SmallFloatFormat format;

  constexpr bool is_integer() const { return kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned; }
  constexpr bool is_small_float() const { return format.exponent_bits > 0; }
};

struct DTypeTable : SmallFloatFormat {  // the rows name its makers
  std::array<DTypeRow, kDTypeLimit> rows;

  constexpr DTypeTable() {
#define CALLOUT_ROW(name, number, xla, pjrt, bits, kind, short_name, numpy, mlir, vhlo, dlpack, letter, format) \
  rows[number] = {DType::name, bits, DTypeKind::kind, short_name, numpy, mlir, vhlo, dlpack, letter, format};
    CALLOUT_DTYPE_ROWS(CALLOUT_ROW)
#undef CALLOUT_ROW
  }
};

/// By number; the gaps between XLA's numbers are rows of kUnknown.
inline constexpr std::array<DTypeRow, kDTypeLimit> kDTypeRows = DTypeTable().rows;
inline constexpr DTypeRow kUnknownDTypeRow;

/// That of any number: kUnknownDTypeRow for one that no type has.
constexpr const DTypeRow& RowOf(DType dtype) {
  const auto number = static_cast<uint32_t>(dtype);
  return number < kDTypeLimit ? kDTypeRows[number] : kUnknownDTypeRow;
}

}  // namespace callout::internal
