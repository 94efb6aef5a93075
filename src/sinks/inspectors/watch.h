// SPDX-License-Identifier: Apache-2.0
//
// `callout.watch`: a tap that looks for NaN and infinities where the value lies, and sends nothing. A program carries
// it as the name "watch:" and a payload (docs/abi.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/inspectors/non_finite.h"

namespace callout::internal {

inline constexpr std::string_view kWatchKind = "watch";

struct WatchOptions {
  NonFiniteChecks checks;
  bool stop = false;  ///< Fails the program; else the first one is logged and counted only.
};

/// "1;ni;report": the format's number, what is looked for, what is done about it ("report", "stop"). InvalidArgument,
/// with what is wrong, for anything else: it may come from anywhere. Thread-safe.
CALLOUT_EXPORT Result<WatchOptions> ParseWatch(std::string_view payload);

/// Counts under the names of its taps, see watch_table.h. Logs the first value that is bad under a name.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeWatch(std::string label, WatchOptions options);

/// The same, of what ParseWatch reads. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeWatchOf(const std::string& label, std::string_view payload);

}  // namespace callout::internal
