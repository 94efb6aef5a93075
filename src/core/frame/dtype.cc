// SPDX-License-Identifier: Apache-2.0
#include "callout/dtype.h"

#include "core/frame/dtype_row.h"

namespace callout {

int BitWidth(DType dtype) { return internal::RowOf(dtype).bits; }
DTypeKind KindOf(DType dtype) { return internal::RowOf(dtype).kind; }
std::string_view ShortName(DType dtype) { return internal::RowOf(dtype).short_name; }
std::string_view NumpyName(DType dtype) { return internal::RowOf(dtype).numpy_name; }

uint64_t PackedBytes(DType dtype, int64_t elements) {
  return (static_cast<uint64_t>(elements) * static_cast<uint64_t>(BitWidth(dtype)) + 7) / 8;
}

}  // namespace callout
