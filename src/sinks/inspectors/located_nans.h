// SPDX-License-Identifier: Apache-2.0
//
// `callout.locate_nans`: taps that read the results of a line of the user's program, and the line's inputs if a result
// is NaN or infinite. NaN began at a line whose inputs were finite.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/attributes/payload.h"
#include "core/callbacks/callback.h"
#include "sinks/inspectors/inspection.h"

namespace callout::internal {

inline constexpr std::string_view kLocatedNansKind = "nans";

/// The reporter's answer to a report.
enum class Reported {
  kTaken,
  kRefused,  ///< The report becomes an error: the program fails with it.
  kByNobody  ///< The report is logged.
};
/// Takes the line ("file.py:12 in f") and the text of a report. Runs inside of the program, on any thread. Must not
/// throw.
using LocatedNansReporter = Reported (*)(std::string_view line, std::string_view text);

/// Sets the reporter of the process. Null: reports are logged. Thread-safe.
CALLOUT_EXPORT void SetLocatedNansReporter(LocatedNansReporter reporter);

enum class OnFinding { kRaise, kWarn };
template <>
inline constexpr std::array<std::string_view, 2> kChoices<OnFinding> = {"raise", "warn"};

enum class LocatedKinds { kNans, kBoth };
template <>
inline constexpr std::array<std::string_view, 2> kChoices<LocatedKinds> = {"n", "ni"};

enum class Direction { kForward, kBackward };
template <>
inline constexpr std::array<std::string_view, 2> kChoices<Direction> = {"forward", "backward"};

/// A program's description of a line. The operands are, in this order: at most one boolean that selects the lanes to
/// examine, the results, the inputs, and the steps of the enclosing loops, the outermost first.
struct LocatedNansPayload {
  OnFinding action = OnFinding::kRaise;
  LocatedKinds kinds = LocatedKinds::kBoth;
  Direction direction = Direction::kForward;
  int64_t order = 0;
  int64_t extents = 0;
  std::vector<int64_t> masks;
  int64_t live = 0;
  std::vector<std::string> operations;
  int64_t inputs = 0;
  int64_t steps = 0;
  std::string place;
  std::string code;
  std::string scopes;

  size_t num_live() const { return static_cast<size_t>(live); }
  size_t num_inputs() const { return static_cast<size_t>(inputs); }
  size_t num_steps() const { return static_cast<size_t>(steps); }
};

inline constexpr int64_t kMostLocated = 1 << 14;  // The most operands of a line.

template <>
inline constexpr auto kAttributeRows<LocatedNansPayload> = std::tuple(
    Field("action", &LocatedNansPayload::action,
          "`raise` fails the program with a text that says what was found; `warn` reports it"),
    Field("kinds", &LocatedNansPayload::kinds, "`n` if infinite results do not count"),
    Field("direction", &LocatedNansPayload::direction, "whether the line is one of the backward pass"),
    Field("order", &LocatedNansPayload::order, "a number that grows along the program",
          {.least = 0, .most = int64_t{1} << 62}),
    Field("extents", &LocatedNansPayload::extents, "as of [checks](#checks)", {.least = 0, .most = kMostExtents}),
    Field("masks", &LocatedNansPayload::masks,
          "one an operand: a number whose bit i says that it has the i-th extent of the batch in front"),
    Field("live", &LocatedNansPayload::live,
          "1 if the first operand is a `pred` that says which lanes are to be looked at", {.least = 0, .most = 1}),
    Field("operations", &LocatedNansPayload::operations, "what made each result"),
    Field("inputs", &LocatedNansPayload::inputs, "how many inputs the operands have behind the results",
          {.least = 0, .most = kMostLocated}),
    Field("steps", &LocatedNansPayload::steps,
          "how many integers the operands have at the end: the steps of the loops around",
          {.least = 0, .most = kMostLocated}),
    Field("place", &LocatedNansPayload::place, "`file.py:12 in f`, or that of a function or module"),
    Field("code", &LocatedNansPayload::code, "what stands there"),
    Field("scopes", &LocatedNansPayload::scopes, "the named scopes around; may be empty"));

/// Parses a payload, which may come from anywhere. InvalidArgument, with the reason, if the table above does not
/// describe it. Thread-safe.
CALLOUT_EXPORT Result<LocatedNansPayload> ParseLocatedNans(std::string_view payload);

/// Makes an inspection from a payload that ParseLocatedNans reads. It reports a NaN if no input is NaN; if inputs are
/// infinite, only if nothing was reported in the run that may have caused the infinities. It reports an infinity if all
/// inputs are finite. Each line reports once in a run; after 10 runs, only in the 16th, 32nd, 64th, ... Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeLocatedNans(const std::string& label, std::string_view payload);

}  // namespace callout::internal
