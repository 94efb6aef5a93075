// SPDX-License-Identifier: Apache-2.0
//
// The type of an array, as MLIR writes it and as people read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/dtype.h"

namespace callout::internal {

struct ArrayType {
  DType dtype;
  std::vector<int64_t> dims;

  bool operator==(const ArrayType&) const = default;
};

/// "f32[2,3]".
std::string Text(const ArrayType& type);

/// Of "tensor<2x3xf32>"; nothing for what is no dense array of fixed size, and for element types that XLA lacks.
std::optional<ArrayType> FromMlirType(std::string_view text);

}  // namespace callout::internal
