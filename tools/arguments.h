// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a program, from what was given for them.
#pragma once

#include <string>
#include <vector>

#include "array.h"
#include "callout/status.h"

namespace callout::tools {

/// Each text is a SPEC (array_spec.h), an ".npy" file, or an ".npz" file with one array or more. InvalidArgument for
/// other numbers of arrays and other types than `expected`, with what was expected; else what reading them gives.
Result<std::vector<Array>> ReadArguments(const std::vector<std::string>& texts,
                                         const std::vector<pjrt::ArrayType>& expected);

}  // namespace callout::tools
