// SPDX-License-Identifier: Apache-2.0
//
// Attribute `threaded`: the first operand and the first result are a token of `callout.threaded`, a u32[] that makes
// the order of calls a data dependence. It is no part of the value.
#pragma once

#include <span>

#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// Copies the token from the operands to the results, and takes it off both. InvalidArgument where there is none.
Status PassToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results);

}  // namespace callout::internal
