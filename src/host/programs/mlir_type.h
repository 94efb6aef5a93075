// SPDX-License-Identifier: Apache-2.0
//
// The type of an array as MLIR writes it.
#pragma once

#include <optional>
#include <string_view>

#include "callout/pjrt/program.h"

namespace callout::internal {

/// Reads "tensor<2x3xf32>", and "tensor<?x3xf32>" with ArrayType::kOpen; nothing for what is no dense array, and for
/// element types that XLA lacks.
std::optional<pjrt::ArrayType> FromMlirType(std::string_view text);

}  // namespace callout::internal
