// SPDX-License-Identifier: Apache-2.0
//
// Reads the arguments of a program from the texts of a command line.
#pragma once

#include <string>
#include <vector>

#include "array.h"
#include "array_source.h"
#include "callout/status.h"

namespace callout::tools {

/// Reads arrays with `source`. InvalidArgument, with the expected types, if their number or types differ from
/// `expected`; other errors are those of reading.
Result<std::vector<Array>> ReadArguments(const std::vector<std::string>& texts,
                                         const std::vector<pjrt::ArrayType>& expected, ArraySource& source);

}  // namespace callout::tools
