// SPDX-License-Identifier: Apache-2.0
//
// The asking side of callout/pjrt/compile_process.h: what a process is asked to compile and its answer, as bytes, and
// the process itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/executable.h"

namespace callout::internal {

struct CompileRequest {
  std::string plugin;            ///< Its path.
  pjrt::ClientOptions client;    ///< With which the asking client was made.
  pjrt::CompileOptions options;  ///< Those that do not belong to a process.
  int num_devices = 0;           ///< Program::num_devices.
  std::string code;              ///< StableHLO.
  /// Functions of XLA FFI that the asking process has, which need not be there to compile.
  std::vector<std::string> handlers;

  std::string Write() const;
  /// InvalidArgument for what Write did not write.
  static Result<CompileRequest> Read(std::string_view bytes);
};

/// An executable's bytes, or an error. It says how long it is: other processes may keep the socket open.
std::string WriteCompileAnswer(const Result<std::string>& answer);
enum class AnswerState { kPartial, kWhole, kOther };
/// Whether `bytes` begin with an answer, or may once there are more. kOther: WriteCompileAnswer did not write them.
AnswerState FindCompileAnswer(std::string_view bytes);
/// The answer. InvalidArgument for what WriteCompileAnswer did not write.
Result<std::string> ReadCompileAnswer(std::string_view bytes);

// The asking side of callout/pjrt/compile_process.h.

/// What `process` makes of `request`: bytes for Compiler::Load. `what` names the program in errors. Errors: those of
/// the compilation there; NotFound if the process cannot be started; Internal if a signal ends it, or it does not
/// answer; DeadlineExceeded. Thread-safe.
Result<std::string> CompileElsewhere(const pjrt::CompileProcess& process, const CompileRequest& request,
                                     const std::string& what);

}  // namespace callout::internal
