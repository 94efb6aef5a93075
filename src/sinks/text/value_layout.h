// SPDX-License-Identifier: Apache-2.0
//
// The text of a tree of values from the texts of its leaves, on one line where it fits and else on several.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "callout/export.h"

namespace callout::internal {

struct LayoutPiece {
  enum class Kind : int {
    kText,   ///< `text` as it stands.
    kLeaf,   ///< The text of leaf `number`.
    kBreak,  ///< A space, or a new line indented by `number`.
    kOpen,   ///< A group: its own breaks, not those of groups inside, are spaces if all of it fits on the line,
    kClose,  ///< and new lines if not.
  };
  Kind kind;
  std::string text;
  size_t number = 0;
};

/// A group fits if it does not go beyond column 80. A column counts code points of UTF-8, and a leaf of several lines
/// counts whole, as in JAX's pretty printer. `leaves` has a text for every kLeaf.
/// Thread-safe.
CALLOUT_EXPORT std::string LayOut(std::span<const LayoutPiece> pieces, std::span<const std::string> leaves);

}  // namespace callout::internal
