// SPDX-License-Identifier: Apache-2.0
//
// Reads what a program in MLIR text takes, returns and calls, in the forms that JAX and MLIR print, without MLIR.
#pragma once

#include <string_view>

#include "callout/pjrt/contents.h"

namespace callout::internal {

/// Takes time and memory linear in the text, for every text. Errors: InvalidArgument for damage, with the line;
/// Unimplemented for values that are no arrays.
Result<pjrt::ProgramContents> ReadTextContents(std::string_view code);

}  // namespace callout::internal
