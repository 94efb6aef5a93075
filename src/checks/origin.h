// SPDX-License-Identifier: Apache-2.0
//
// `callout.locate_nans`: taps that look at what leaves a line of the user's program, and at what came in where that is
// NaN or infinite. A place whose inputs were finite is where it began.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "callbacks/callback.h"
#include "callout/export.h"
#include "callout/status.h"
#include "checks/origin_payload.h"

namespace callout::internal {

inline constexpr std::string_view kOriginKind = "nans";

/// What became of a report.
enum class Reported {
  kTaken,
  kRefused,  ///< It is to be an error: the program fails with it.
  kByNobody  ///< It is logged.
};
/// Takes the place ("file.py:12 in f") and the text of a report. Called inside the program, on any thread. Must not
/// throw.
using OriginReporter = Reported (*)(std::string_view place, std::string_view text);

/// Thread-safe. Null: reports are logged.
CALLOUT_EXPORT void SetOriginReporter(OriginReporter reporter);

/// NaN is reported where no input is NaN; where inputs are infinite, only if nothing was reported in the run that may
/// have made them so. Infinities are reported where all inputs are finite. Each place reports once a run, after 10 runs
/// in the 16th, 32nd, 64th, ...
CALLOUT_EXPORT std::shared_ptr<Callback> MakeOrigin(std::string label, OriginText text);

/// As MakeOrigin, of what a program says: see ParseOrigin.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeOriginOf(const std::string& label, std::string_view payload);

}  // namespace callout::internal
