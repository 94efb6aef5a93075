// SPDX-License-Identifier: Apache-2.0
//
// Programs that are read and compiled in a process of their own, which a damaged one may crash.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "callout/export.h"

namespace callout::pjrt {

/// Where CompileOptions::process has programs compiled.
struct CompileProcess {
  /// What starts the process, found as a shell finds it: {"callout", "compile-request"}, the installed command; or a
  /// program of the host's own whose `main` calls AnswerCompileRequest, such as {"/proc/self/exe", "--compile"}. Empty:
  /// none, programs are compiled in this process.
  std::vector<std::string> command = {};
  /// How long it may take; then it is killed. 0: for ever.
  std::chrono::nanoseconds timeout{0};
};

/// Does what such a process does: reads one program from standard input, compiles it, writes what it became to where
/// standard output went, and returns the process's exit code. What plugins print goes to standard error. Not
/// thread-safe: call it first in `main`, and return what it returns.
CALLOUT_EXPORT int AnswerCompileRequest();

}  // namespace callout::pjrt
