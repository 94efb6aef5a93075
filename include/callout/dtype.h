// SPDX-License-Identifier: Apache-2.0
//
// Element types. The numbers are XLA's PrimitiveType numbers (xla_data.proto), which are also the numbers of XLA FFI
// and of the C ABI in callout/abi.h; src/core/frame/ffi_abi.cc asserts that they agree.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "callout/dtype_rows.h"
#include "callout/export.h"

namespace callout {

#define CALLOUT_ENUMERATOR(name, number, ...) name = number,
/// An element type. The values are XLA's PrimitiveType numbers.
enum class DType : uint32_t { kInvalid = 0, CALLOUT_DTYPE_ROWS(CALLOUT_ENUMERATOR) };
#undef CALLOUT_ENUMERATOR

/// The kinds of element types.
enum class DTypeKind : uint8_t { kUnknown, kBool, kSigned, kUnsigned, kFloat, kComplex, kToken };

namespace internal {
constexpr uint32_t DTypeLimit() {
  uint32_t limit = 0;
#define CALLOUT_RAISE(name, number, ...) limit = limit > number ? limit : number + 1;
  CALLOUT_DTYPE_ROWS(CALLOUT_RAISE)
#undef CALLOUT_RAISE
  return limit;
}
}  // namespace internal

/// One more than the largest number of a DType.
inline constexpr uint32_t kDTypeLimit = internal::DTypeLimit();

/// Returns the bits of one element in an XLA buffer; 0 for tokens and unknown numbers.
CALLOUT_EXPORT int BitWidth(DType dtype);

/// Returns the kind of an element type; kUnknown for unknown numbers.
CALLOUT_EXPORT DTypeKind KindOf(DType dtype);

/// Returns XLA's short name, "f32" ("bool" for PRED); "?" for unknown numbers.
CALLOUT_EXPORT std::string_view ShortName(DType dtype);

/// Returns NumPy's or ml_dtypes' name, "float32"; "" if neither has the type.
CALLOUT_EXPORT std::string_view NumpyName(DType dtype);

/// Returns the bytes of `elements` packed elements.
CALLOUT_EXPORT uint64_t PackedBytes(DType dtype, int64_t elements);

/// The DType of a C++ type, for those element types that C++ has.
template <typename T>
struct DTypeOf;
#define CALLOUT_DTYPE_OF(type, dtype)            \
  template <>                                    \
  struct DTypeOf<type> {                         \
    static constexpr DType value = DType::dtype; \
  }
CALLOUT_DTYPE_OF(bool, kBool);
CALLOUT_DTYPE_OF(int8_t, kInt8);
CALLOUT_DTYPE_OF(int16_t, kInt16);
CALLOUT_DTYPE_OF(int32_t, kInt32);
CALLOUT_DTYPE_OF(int64_t, kInt64);
CALLOUT_DTYPE_OF(uint8_t, kUint8);
CALLOUT_DTYPE_OF(uint16_t, kUint16);
CALLOUT_DTYPE_OF(uint32_t, kUint32);
CALLOUT_DTYPE_OF(uint64_t, kUint64);
CALLOUT_DTYPE_OF(float, kFloat32);
CALLOUT_DTYPE_OF(double, kFloat64);
CALLOUT_DTYPE_OF(std::complex<float>, kComplex64);
CALLOUT_DTYPE_OF(std::complex<double>, kComplex128);
#undef CALLOUT_DTYPE_OF

}  // namespace callout
