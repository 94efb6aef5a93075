// SPDX-License-Identifier: Apache-2.0
//
// Element types and the elements of arrays: the rows of callout/dtype_rows.h as a table, small floats as float, and
// arrays of any type as C++ values.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/base/cat.h"

namespace callout::internal {

enum class FloatSpecials : uint8_t {
  kIeee,               ///< All-ones exponent: infinity and NaNs.
  kNanAtTop,           ///< "fn": only all ones is NaN, no infinity.
  kNanAtNegativeZero,  ///< "fnuz": one zero, one NaN, no infinity.
  kAllNumbers,         ///< Every pattern is a number.
  kPowerOfTwo,         ///< Only an exponent; all ones is NaN.
};

/// The format of a float of at most 16 bits. No exponent bits: no such float.
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

/// A row of the table; callout/dtype_rows.h describes the columns.
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

struct DTypeTable : SmallFloatFormat {  // the rows use its named constructors
  std::array<DTypeRow, kDTypeLimit> rows;

  constexpr DTypeTable() {
#define CALLOUT_ROW(name, number, xla, pjrt, bits, kind, short_name, numpy, mlir, vhlo, dlpack, letter, format) \
  rows[number] = {DType::name, bits, DTypeKind::kind, short_name, numpy, mlir, vhlo, dlpack, letter, format};
    CALLOUT_DTYPE_ROWS(CALLOUT_ROW)
#undef CALLOUT_ROW
  }
};

/// Rows by XLA's number; gaps between XLA's numbers are rows of kUnknown.
inline constexpr std::array<DTypeRow, kDTypeLimit> kDTypeRows = DTypeTable().rows;
inline constexpr DTypeRow kUnknownDTypeRow;

/// Returns the row of any number; kUnknownDTypeRow for a number without a type.
constexpr const DTypeRow& RowOf(DType dtype) {
  const auto number = static_cast<uint32_t>(dtype);
  return number < kDTypeLimit ? kDTypeRows[number] : kUnknownDTypeRow;
}

// Floats of 4, 8 and 16 bits as float. Formats: IEEE 754 binary16; bfloat16; the OCP 8-bit and MX specifications for
// f8e5m2, f8e4m3fn, f8e8m0fnu and f4e2m1fn; the "fnuz" variants (one zero, one NaN, no infinity, bias one higher) as
// ml_dtypes defines them.

/// Returns the value of a float in the low bits of `bits`; higher bits are ignored. `format` must have exponent bits.
float SmallFloatToFloat(const SmallFloatFormat& format, uint16_t bits);

// The elements of arrays of any type as C++ values. VisitElements is the one place that maps an array's type to a C++
// type. ReadDoubles reads the elements of an array as doubles, a part at a time.

template <typename T>
struct PlainElements {
  T operator()(const void* data, int64_t i) const {
    T value;
    std::memcpy(&value, static_cast<const char*>(data) + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }
};

template <>
struct PlainElements<bool> {
  bool operator()(const void* data, int64_t i) const { return PlainElements<uint8_t>()(data, i) != 0; }
};

template <typename Bits>
struct SmallFloatElements {
  SmallFloatFormat format;
  float operator()(const void* data, int64_t i) const {
    return SmallFloatToFloat(format, PlainElements<Bits>()(data, i));
  }
};

/// Returns InvalidArgument for an operation on elements of an unknown type, or of tokens, which carry no data.
inline Status UnknownDType(const char* attempted, DType dtype) {
  return InvalidArgument(Cat("callout: cannot ", attempted, " of element type ", static_cast<uint32_t>(dtype),
                             " of XLA (", RowOf(dtype).short_name, ")"));
}

template <typename Int8, typename Int16, typename Int32, typename Int64, typename Visit>
void VisitIntegers(int bits, const Visit& visit) {
  if (bits <= 8) return visit(PlainElements<Int8>());
  if (bits == 16) return visit(PlainElements<Int16>());
  if (bits == 32) return visit(PlainElements<Int32>());
  visit(PlainElements<Int64>());
}

/// Calls `visit` with a reader of the elements of `dtype`: `reader(data, i)` returns the i-th. Elements of less than a
/// byte must be unpacked to a byte each (callout/elements.h). Returns false, without a call, for tokens and unknown
/// types.
template <typename Visit>
[[nodiscard]] bool VisitElements(DType dtype, const Visit& visit) {
  const DTypeRow& row = RowOf(dtype);
  switch (row.kind) {
    case DTypeKind::kBool:
      return visit(PlainElements<bool>()), true;
    case DTypeKind::kSigned:
      return VisitIntegers<int8_t, int16_t, int32_t, int64_t>(row.bits, visit), true;
    case DTypeKind::kUnsigned:
      return VisitIntegers<uint8_t, uint16_t, uint32_t, uint64_t>(row.bits, visit), true;
    case DTypeKind::kFloat:
      if (row.bits == 64) return visit(PlainElements<double>()), true;
      if (row.bits == 32) return visit(PlainElements<float>()), true;
      if (row.bits == 16) return visit(SmallFloatElements<uint16_t>{row.format}), true;
      return visit(SmallFloatElements<uint8_t>{row.format}), true;
    case DTypeKind::kComplex:
      if (row.bits == 128) return visit(PlainElements<std::complex<double>>()), true;
      return visit(PlainElements<std::complex<float>>()), true;
    case DTypeKind::kToken:
    case DTypeKind::kUnknown:
      break;
  }
  return false;
}

/// Writes the elements [first, first + count) of `buffer` to `out`. Integers of 64 bits are rounded, complex numbers
/// become their magnitude, booleans 0 and 1. For types of less than a byte, `first` must be a multiple of 8.
/// InvalidArgument for tokens and unknown types. Thread-safe.
CALLOUT_EXPORT Status ReadDoubles(const callout_buffer& buffer, int64_t first, size_t count, double* out);

}  // namespace callout::internal
