// SPDX-License-Identifier: Apache-2.0
//
// What a program of MLIR text takes, returns and calls: in the forms that JAX and MLIR print, without MLIR.
#pragma once

#include <string_view>

#include "callout/pjrt/contents.h"

namespace callout::internal {

/// Takes time and memory in proportion to the text, whatever is in it. Errors: InvalidArgument for damage, with the
/// line; Unimplemented for values that are no arrays.
Result<pjrt::ProgramContents> ReadTextContents(std::string_view code);

}  // namespace callout::internal
