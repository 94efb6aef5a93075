// SPDX-License-Identifier: Apache-2.0
//
// What Python's part of the library does for its process, for a process without Python: crash reports and the
// watchdog.
#pragma once

namespace callout::internal {

/// Once a process: switches hang reports on (CALLOUT_HANG_REPORT_S seconds, 30 by default, 0 for none), and lets the
/// process's exit wait for programs' taps (CALLOUT_EXIT_TIMEOUT_S seconds, 10 by default). Thread-safe.
void StartHostServices();

}  // namespace callout::internal
