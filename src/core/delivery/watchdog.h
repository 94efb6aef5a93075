// SPDX-License-Identifier: Apache-2.0
//
// Says why a program hangs. A thread of its own looks at what the others are doing (callbacks/in_flight.h) and reports,
// once a callback, one that has made no progress for too long. It takes no lock that a stuck thread may hold, never the
// GIL, and ends nothing.
#pragma once

#include <string>

#include "callout/export.h"

namespace callout::internal {

/// Adds what the interpreter's threads are doing to a report. Called on the watchdog's thread. GIL not needed.
using StackDumper = std::string (*)();

/// Seconds without progress before a report; 0 switches reports off. The thread starts
/// with the first callback. Thread-safe.
CALLOUT_EXPORT void SetHangReportSeconds(double seconds);

/// As SetHangReportSeconds, unless somebody has set them. Thread-safe.
CALLOUT_EXPORT void SetDefaultHangReportSeconds(double seconds);

/// Null: reports carry no stacks. Thread-safe.
CALLOUT_EXPORT void SetStackDumper(StackDumper dumper);

/// Ends the thread. Blocks until it has ended. Thread-safe.
CALLOUT_EXPORT void StopWatchdog();

}  // namespace callout::internal
