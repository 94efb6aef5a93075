// SPDX-License-Identifier: Apache-2.0
//
// `callout.error_if`, `warn_if` and `check`: a tap whose first array is a predicate, which the check reads in place. If
// the predicate is true anywhere, the program fails with a text that shows the values there, or a warning is logged.
// Nothing is sent otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/attributes/payload.h"
#include "core/callbacks/callback.h"
#include "sinks/inspectors/inspection.h"
#include "sinks/record_format.h"

namespace callout::internal {

enum class CheckAction { kRaise, kWarn };
template <>
inline constexpr std::array<std::string_view, 2> kChoices<CheckAction> = {"raise", "warn"};

struct CheckPayload {
  CheckAction action = CheckAction::kRaise;
  std::string source;
  int64_t extents = 0;
  std::vector<std::string> operands;
  RestOfPayload text;
};

inline constexpr size_t kMostCheckBytes = 1 << 16;  // Bytes of a source, and of a text.

template <>
inline constexpr auto kAttributeRows<CheckPayload> = std::tuple(
    Field("action", &CheckPayload::action, "`raise` fails the program, `warn` logs the text"),
    Field("source", &CheckPayload::source, "where the check stands in the user's code, `file.py:12 in f`; may be empty",
          {.most_bytes = kMostCheckBytes}),
    Field("extents", &CheckPayload::extents, "how many extents the batch has, the outermost first",
          {.least = 0, .most = kMostExtents}),
    Field(
        "operands", &CheckPayload::operands,
        "one an operand: a number whose bit i says that the operand has the i-th extent of the batch in front, and `e` "
        "behind it for a value that has the predicate's shape behind the batch. At most 1024"),
    Field("text", &CheckPayload::text,
          "a format string as [sinks](sinks.md) have it, of the operands behind the predicate; the last two names are "
          "`lane` and `index`",
          {.most_bytes = kMostCheckBytes}));

/// The text of a check and its operands: the predicate, which comes first, and the values that the text shows.
struct CheckText {
  bool fails = true;    ///< True: the program fails. False: a warning is logged.
  std::string source;   ///< The user's line, as in "file.py:12 in f"; empty if unknown.
  int num_extents = 0;  ///< The number of extents of the batch, by `vmap`.
  std::vector<uint32_t> lane_masks;
  /// One for each operand. True: the operand has the predicate's shape after the batch, and the text shows the element
  /// where the predicate is true. False: the text shows the whole value of the lane.
  std::vector<bool> is_elementwise;
  std::string format;  ///< The format of the text: RecordFormat's fields, {lane} and {index}.
};

/// Parses a payload, which may come from anywhere. InvalidArgument, with the reason, if CheckPayload does not describe
/// it. Thread-safe.
CALLOUT_EXPORT Result<CheckText> ParseCheck(std::string_view payload);

/// Where a predicate is true. All indices count in the whole value, even if the device has only a shard of it.
struct CheckPlace {
  std::vector<std::optional<int64_t>> lane =
      {};                           ///< One for each extent of the batch; nothing if the predicate lacks the extent.
  std::vector<int64_t> index = {};  ///< Index into the predicate, after the batch.
  std::optional<int64_t> step = {};
  int32_t device_ordinal = 0;

  /// Returns "lane 3, index [1,2], step 7, device 0", without the parts that are absent.
  std::string Describe() const;
};

/// Returns the place of an element. `first` is the row-major index of the element in the record's first buffer.
CheckPlace CheckedAt(const CheckText& text, const Record& record, int64_t first);

/// Returns the user's text with the values at the place. If a value is on another device, or does not suit its
/// specification, the text stays as the user wrote it.
std::string TextAt(const CheckText& text, const Record& record, const CheckPlace& place);

inline constexpr std::string_view kCheckKind = "check";

/// Makes a check from a payload that ParseCheck reads. A warning is logged at the 1st, 2nd, 4th, 8th, ... occurrence.
/// Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeCheck(const std::string& label, std::string_view payload);

}  // namespace callout::internal
