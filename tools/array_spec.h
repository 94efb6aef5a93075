// SPDX-License-Identifier: Apache-2.0
//
// Parses arrays that are written on a command line:
//   f32[2,3]=0.5            filled
//   f32[3]=1,2,3            listed, row-major
//   f32[]=1                 a scalar
//   f32[2,3]=random:SEED    uniform in [0, 1); integers from 0 to below 100; the same on every machine
#pragma once

#include <string_view>

#include "array.h"
#include "callout/status.h"

namespace callout::tools {

/// Returns whether `text` looks like a SPEC: a type, brackets and '='.
bool LooksLikeSpec(std::string_view text);

/// Parses a SPEC. InvalidArgument, with the whole text and the reason.
Result<Array> ParseSpec(std::string_view text);

/// Parses "f32[2,3]". InvalidArgument, with the text.
Result<pjrt::ArrayType> ParseArrayType(std::string_view text);

}  // namespace callout::tools
