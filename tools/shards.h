// SPDX-License-Identifier: Apache-2.0
//
// Splits whole arrays into the parts of devices, and assembles them.
#pragma once

#include <vector>

#include "array.h"
#include "callout/pjrt/signature.h"

namespace callout::tools {

/// Returns the part of `whole` that `device` has. Requires that `whole` has the type array.WholeType().
Array ShardOf(const Array& whole, const pjrt::ProgramArray& array, size_t device);

/// Assembles the whole array from the parts of all devices, in their order.
Array Assemble(const std::vector<Array>& shards, const pjrt::ProgramArray& array);

}  // namespace callout::tools
