// SPDX-License-Identifier: Apache-2.0
//
// The watchdog reports why a program hangs. Its own thread reads what other threads are doing (callbacks/in_flight.h)
// and reports a callback that has made no progress for too long, once per callback. The watchdog takes no lock that a
// stuck thread may hold, never takes the GIL, and ends nothing.
#pragma once

#include <string>

#include "callout/export.h"

namespace callout::internal {

/// Returns a description of what the interpreter's threads are doing, for a report. Called on the watchdog's thread.
/// GIL not needed.
using StackDumper = std::string (*)();

/// Sets the seconds without progress before a report; 0 switches reports off. The thread starts with the first
/// callback. Thread-safe.
CALLOUT_EXPORT void SetHangReportSeconds(double seconds);

/// Sets the seconds before a report, unless SetHangReportSeconds was called before. Thread-safe.
CALLOUT_EXPORT void SetDefaultHangReportSeconds(double seconds);

/// Sets the source of stacks in reports; null: reports have no stacks. Thread-safe.
CALLOUT_EXPORT void SetStackDumper(StackDumper dumper);

/// Ends the watchdog's thread. Blocks until it has ended. Thread-safe.
CALLOUT_EXPORT void StopWatchdog();

}  // namespace callout::internal
