// SPDX-License-Identifier: Apache-2.0
//
// `callout.locate_nans`: taps that read what leaves a line of the user's program, and what came in where that is NaN or
// infinite. NaN began at a line whose inputs were finite.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/inspectors/located_nans_payload.h"

namespace callout::internal {

inline constexpr std::string_view kLocatedNansKind = "nans";

/// What became of a report.
enum class Reported {
  kTaken,
  kRefused,  ///< It is to be an error: the program fails with it.
  kByNobody  ///< It is logged.
};
/// Takes the line ("file.py:12 in f") and the text of a report. Called inside the program, on any thread. Must not
/// throw.
using LocatedNansReporter = Reported (*)(std::string_view line, std::string_view text);

/// Thread-safe. Null: reports are logged.
CALLOUT_EXPORT void SetLocatedNansReporter(LocatedNansReporter reporter);

/// NaN is reported where no input is NaN; where inputs are infinite, only if nothing was reported in the run that may
/// have made them so. Infinities are reported where all inputs are finite. Each line reports once a run, after 10 runs
/// in the 16th, 32nd, 64th, ...
CALLOUT_EXPORT std::shared_ptr<Callback> MakeLocatedNans(std::string label, LocatedNansText text);

/// As MakeLocatedNans, of what a program says: see ParseLocatedNans.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeLocatedNansOf(const std::string& label, std::string_view payload);

}  // namespace callout::internal
