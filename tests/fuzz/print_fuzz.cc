// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the prints that programs embed in names.
#include <string>
#include <vector>

#include "fuzz.h"
#include "mutation.h"
#include "sinks/text/numpy_text.h"
#include "sinks/value_print.h"

void callout::fuzz::Try(std::string_view bytes) {
  const Result<internal::ValuePrint> print = internal::ParseValuePrint(bytes);
  if (!print.ok()) return;
  CALLOUT_CHECK(print->num_leaves <= print->layout.size(), "leaves that are nowhere in the text");
  size_t indent = 0;
  for (const internal::LayoutPiece& piece : print->layout) {
    if (piece.kind == internal::LayoutPiece::Kind::kBreak) indent += piece.number;
  }
  constexpr size_t kMostBlanks = 1 << 20;  // megabytes of blanks find nothing new
  if (indent > kMostBlanks) return;
  for (const char* leaf : {"1", "[1. 2.\n 3. 4.]"}) {
    (void)internal::LayOut(print->layout, std::vector<std::string>(print->num_leaves, leaf));
  }
}

namespace {

// Pieces of prints.
constexpr const char* kPieces[] = {"1",
                                   "1;",
                                   ";",
                                   ",",
                                   "(",
                                   ")",
                                   "t",
                                   "t%20",
                                   "tx",
                                   "t%F0%9F",
                                   "d",
                                   "l0",
                                   "l1",
                                   "l2",
                                   "b0",
                                   "b2",
                                   "b65536",
                                   "9223372036854775807",
                                   "-1",
                                   "1000",
                                   "1000000",
                                   "l18446744073709551615",
                                   "t%",
                                   "t%4",
                                   "1;1000;1000000;;l0"};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateTokens(data, size, max_size, seed, ";,", kPieces);
}
