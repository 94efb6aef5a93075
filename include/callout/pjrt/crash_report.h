// SPDX-License-Identifier: Apache-2.0
//
// Which callback it was, when one crashes the process.
#pragma once

#include "callout/export.h"

namespace callout::pjrt {

/// From now on, a SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT on a thread that is in a callback writes a line with its
/// name to standard error. Then the signal does what it did before this call: it ends the process, or goes to the
/// handler that there was. For a program's main function: libraries should leave signals alone. Later calls do nothing.
/// Thread-safe.
CALLOUT_EXPORT void ReportCrashes();

}  // namespace callout::pjrt
