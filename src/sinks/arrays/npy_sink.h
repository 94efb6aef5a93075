// SPDX-License-Identifier: Apache-2.0
//
// The heads of NumPy's files of one array (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), with room
// for an array that grows.
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
  DType dtype = DType::kInvalid;  ///< One that StoredType returns.
  std::vector<int64_t> shape;
  size_t bytes = 0;  ///< Of the head.
};

/// Padded to `bytes`, or to so many that any number of rows has room if they are 0. InvalidArgument if it needs more.
Result<std::string> NpyHeadText(const NpyHead& head);

/// Reads the beginning of a file, which may be anything. InvalidArgument for other files, Fortran's order, and types
/// that no sink writes.
CALLOUT_EXPORT Result<NpyHead> ParseNpyHead(std::string_view bytes);

/// No head that a sink goes on with is longer.
inline constexpr size_t kMaxNpyHead = 4096;

}  // namespace callout::internal
