// SPDX-License-Identifier: Apache-2.0
//
// The elements of arrays of any type as C++ values: the one place where the type of an array is made one of C++.
// ReadDoubles reads the elements of an array as doubles, a part at a time.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/frame/dtype_row.h"
#include "core/frame/small_float.h"

namespace callout::internal {

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

/// InvalidArgument: what was attempted on elements of a type that is not known, or of tokens, which are no data.
inline Status UnknownDType(const char* attempted, DType dtype) {
  return InvalidArgument(std::string("callout: cannot ") + attempted + " of element type " +
                         std::to_string(static_cast<uint32_t>(dtype)) + " of XLA (" +
                         std::string(RowOf(dtype).short_name) + ")");
}

template <typename Int8, typename Int16, typename Int32, typename Int64, typename Visit>
void VisitIntegers(int bits, const Visit& visit) {
  if (bits <= 8) return visit(PlainElements<Int8>());
  if (bits == 16) return visit(PlainElements<Int16>());
  if (bits == 32) return visit(PlainElements<Int32>());
  visit(PlainElements<Int64>());
}

/// Calls `visit` with what reads the elements of `dtype`: `reader(data, i)` is the i-th. Elements of less than a byte
/// were unpacked to one each (callout/elements.h). False, without a call, for tokens and types that are not known.
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
/// are their magnitude, booleans 0 and 1. For types of less than a byte `first` is a multiple of 8. InvalidArgument for
/// tokens and types that are not known. Thread-safe.
CALLOUT_EXPORT Status ReadDoubles(const callout_buffer& buffer, int64_t first, size_t count, double* out);

}  // namespace callout::internal
