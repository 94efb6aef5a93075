// SPDX-License-Identifier: Apache-2.0
//
// What a program says of one of its checks, in the name "check:" and a payload (docs/abi.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "sinks/record_format.h"

namespace callout::internal {

/// One array that a check is given: the predicate, which comes first, or a value for its text.
struct CheckOperand {
  /// Which extents of the batch it has in front: bit i stands for the i-th, the outermost being the first.
  uint32_t lane_mask = 0;
  /// Tells of a value that it has the predicate's shape behind the batch, and the text shows the element where the
  /// predicate is true. Else the text shows the whole value of the lane.
  bool is_elementwise = false;
};

struct CheckText {
  bool fails = true;    ///< The program fails; else a warning is logged.
  std::string source;   ///< Where the user wrote it, "file.py:12 in f"; empty if nobody knows.
  int num_extents = 0;  ///< Of the batch, by `vmap`.
  std::vector<CheckOperand> operands;
  std::string format;  ///< Of the text: RecordFormat's fields, {lane} and {index}.
};

/// "1;raise;source;extents;operands;text": the format's number; "raise" or "warn"; the source, with "%XX" for ';', '%'
/// and control characters; the number of extents; the operands' masks, separated by ',', those of elementwise values
/// with an 'e' behind them; the rest is the text. InvalidArgument, with what is wrong, for anything else: it may come
/// from anywhere. Thread-safe.
CALLOUT_EXPORT Result<CheckText> ParseCheck(std::string_view payload);

}  // namespace callout::internal
