// SPDX-License-Identifier: Apache-2.0
//
// The prints that programs carry in their names.
#include <string>
#include <vector>

#include "fuzz.h"
#include "sinks/value_print.h"
#include "text/value_layout.h"

void callout::fuzz::Try(std::string_view bytes) {
  const Result<internal::ValuePrint> print = internal::ParseValuePrint(bytes);
  if (!print.ok()) return;
  CALLOUT_CHECK(print->num_leaves <= print->layout.size(), "leaves that are nowhere in the text");
  size_t indent = 0;
  for (const internal::LayoutPiece& piece : print->layout) {
    if (piece.kind == internal::LayoutPiece::Kind::kBreak) indent += piece.number;
  }
  constexpr size_t kMostBlanks = 1 << 20;  // megabytes of them find nothing
  if (indent > kMostBlanks) return;
  for (const char* leaf : {"1", "[1. 2.\n 3. 4.]"}) {
    (void)internal::LayOut(print->layout, std::vector<std::string>(print->num_leaves, leaf));
  }
}
