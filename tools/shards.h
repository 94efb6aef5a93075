// SPDX-License-Identifier: Apache-2.0
//
// Whole arrays and the parts of them that devices have.
#pragma once

#include <vector>

#include "array.h"
#include "callout/pjrt/signature.h"

namespace callout::tools {

/// What `device` has of `whole`, which is of the type array.WholeType().
Array ShardOf(const Array& whole, const pjrt::ProgramArray& array, size_t device);

/// The whole array of what all devices have, in their order.
Array Assemble(const std::vector<Array>& shards, const pjrt::ProgramArray& array);

}  // namespace callout::tools
