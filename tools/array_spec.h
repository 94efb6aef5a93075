// SPDX-License-Identifier: Apache-2.0
//
// Arrays written on a command line:
//   f32[2,3]=0.5            filled
//   f32[3]=1,2,3            listed, row-major
//   f32[]=1                 a scalar
//   f32[2,3]=random:SEED    uniform in [0, 1); integers from 0 to below 100; the same on every machine
#pragma once

#include <string_view>

#include "array.h"
#include "callout/status.h"

namespace callout::tools {

/// True if `text` is meant as a SPEC: a type, brackets and '='.
bool LooksLikeSpec(std::string_view text);

/// InvalidArgument, with the whole text and what is wrong in it.
Result<Array> ParseSpec(std::string_view text);

/// "f32[2,3]". InvalidArgument with the text.
Result<pjrt::ArrayType> ParseArrayType(std::string_view text);

}  // namespace callout::tools
