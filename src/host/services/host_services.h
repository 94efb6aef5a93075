// SPDX-License-Identifier: Apache-2.0
//
// Services for a process without Python, where Python's part of the library does not run: crash reports and the
// watchdog.
#pragma once

namespace callout::internal {

/// Starts the services, once in each process: switches hang reports on (CALLOUT_HANG_REPORT_S seconds, 30 by default, 0
/// for none), and makes the exit of the process wait for programs' taps (CALLOUT_EXIT_TIMEOUT_S seconds, 10 by
/// default). Thread-safe.
void StartHostServices();

}  // namespace callout::internal
