// SPDX-License-Identifier: Apache-2.0
//
// A custom call as a program writes it, and what it is for whoever asks what a program calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "callout/pjrt/contents.h"

namespace callout::internal {

/// How many operands, the last ones, only tell the extents of the results: so many as results, where this is there.
inline constexpr char kShapeOperandsAttribute[] = "indices_of_shape_operands";

struct WrittenCall {
  std::string target;
  std::optional<std::string> callback;  ///< The name in its dictionary.
  std::optional<int64_t> jax_index;     ///< The number in its dictionary.
  bool is_embedded = false;             ///< Its dictionary has code.
  bool has_shape_operands = false;
  std::vector<pjrt::ArrayType> operands, results;
};

/// Adds what `call` is: a callback, another custom call, or nothing that anybody else has to give.
void AddCall(WrittenCall call, pjrt::ProgramContents& contents);

}  // namespace callout::internal
