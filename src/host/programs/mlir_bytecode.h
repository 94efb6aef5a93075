// SPDX-License-Identifier: Apache-2.0
//
// How programs in MLIR bytecode are told from others.
#pragma once

#include <string_view>

namespace callout::internal {

/// How MLIR bytecode begins, StableHLO artifacts among it (mlir.llvm.org/docs/BytecodeFormat).
inline constexpr std::string_view kMlirBytecode = "ML\xefR";

}  // namespace callout::internal
