// SPDX-License-Identifier: Apache-2.0
//
// The heads of NumPy's .npy files (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), with room for an
// array that grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

struct NpyHead {
  DType dtype = DType::kInvalid;  ///< A type that StoredType returns.
  std::vector<int64_t> shape;
  size_t bytes = 0;  ///< The length of the head.
};

/// Returns the head as text, padded to `head.bytes`. If these are 0, the padding leaves room for any number of rows.
/// InvalidArgument if the text needs more bytes.
Result<std::string> NpyHeadText(const NpyHead& head);

/// Reads the head from the beginning of a file, which may hold anything. InvalidArgument for other files, Fortran
/// order, and types that no sink writes.
CALLOUT_EXPORT Result<NpyHead> ParseNpyHead(std::string_view bytes);

/// The longest head that a sink accepts in a file that it appends to.
inline constexpr size_t kMaxNpyHead = 4096;

}  // namespace callout::internal
