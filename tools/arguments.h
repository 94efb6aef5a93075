// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a program, from what was given for them.
#pragma once

#include <string>
#include <vector>

#include "array.h"
#include "array_source.h"
#include "callout/status.h"

namespace callout::tools {

/// Each text is what `source` reads. InvalidArgument for other numbers of arrays and other types than `expected`, with
/// what was expected; else what reading them gives.
Result<std::vector<Array>> ReadArguments(const std::vector<std::string>& texts,
                                         const std::vector<pjrt::ArrayType>& expected, ArraySource& source);

}  // namespace callout::tools
