// SPDX-License-Identifier: Apache-2.0
//
// `callout.error_if`, `warn_if` and `check`: a tap whose first array is a predicate, which is read where it lies. Where
// it is true, the program fails with a text of the values there, or a warning is logged. Nothing is sent otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
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

/// Everything is of the whole value, also where the device has a shard of it.
struct CheckPlace {
  std::vector<std::optional<int64_t>> lane =
      {};                           ///< One an extent of the batch; nothing where the predicate is that of all.
  std::vector<int64_t> index = {};  ///< Of the predicate, behind the batch.
  std::optional<int64_t> step = {};
  int32_t device_ordinal = 0;

  /// "lane 3, index [1,2], step 7, device 0", of those that there are.
  std::string Describe() const;
};

/// `first`: the row-major place in the record's first buffer.
CheckPlace PlaceOf(const CheckText& text, const Record& record, int64_t first);

/// The user's text with the values at the place. Where a value is not on this device, or does not go with its
/// specification, the text is as the user wrote it.
std::string TextAt(const CheckText& text, const Record& record, const CheckPlace& place);

inline constexpr std::string_view kCheckKind = "check";

/// The predicate is the first of `text.operands`. A warning is logged at the 1st, 2nd, 4th, 8th, ... time.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeCheck(std::string label, CheckText text);

/// As MakeCheck, of what a program says: see ParseCheck.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeCheckOf(const std::string& label, std::string_view payload);

}  // namespace callout::internal
