// SPDX-License-Identifier: Apache-2.0
//
// A custom call as a program writes it, and its entry in the program's contents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "callout/pjrt/contents.h"

namespace callout::internal {

/// The attribute of a call whose last operands only give the extents of its results, one operand for each result.
inline constexpr char kShapeOperandsAttribute[] = "indices_of_shape_operands";

struct WrittenCall {
  std::string target;
  std::optional<std::string> callback;  ///< The callback's name in the call's dictionary.
  std::optional<int64_t> jax_index;     ///< The index of JAX's callback in the call's dictionary.
  bool is_embedded = false;             ///< True if the call's dictionary carries code.
  bool has_shape_operands = false;
  std::vector<pjrt::ArrayType> operands, results;
};

/// Adds `call` to the contents: as a callback, as another custom call, or not at all if it needs nothing from the host.
void AddCall(WrittenCall call, pjrt::ProgramContents& contents);

}  // namespace callout::internal
