// SPDX-License-Identifier: Apache-2.0
//
// Reports which callback was running when the process crashed.
#pragma once

#include "callout/export.h"

namespace callout::pjrt {

/// Installs signal handlers: from now on, a SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT on a thread that is in a
/// callback writes a line with the callback's name to standard error. Afterwards the signal has its previous effect:
/// the process ends, or the previous handler runs. Call this from a program's main function; libraries should leave
/// signals alone. Later calls do nothing. Thread-safe.
CALLOUT_EXPORT void ReportCrashes();

}  // namespace callout::pjrt
