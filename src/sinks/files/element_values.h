// SPDX-License-Identifier: Apache-2.0
//
// The elements of arrays of any real type as doubles.
#pragma once

#include <functional>
#include <span>

#include "callout/abi.h"

namespace callout::internal {

/// False for complex numbers, tokens and types that are not known. Numbers of 64 bits are rounded.
bool HasRealElements(const callout_buffer& buffer);

/// Calls `visit` with all elements in turn, some at a time. For buffers that HasRealElements.
void ForEachValue(const callout_buffer& buffer, const std::function<void(std::span<const double>)>& visit);

/// The first element, of a buffer that HasRealElements.
double FirstValue(const callout_buffer& buffer);

}  // namespace callout::internal
