// SPDX-License-Identifier: Apache-2.0
//
// What the subcommands share: a plugin, a client with devices enough, a compiled program; and how they end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "callout/pjrt/executable.h"
#include "progress.h"
#include "trace.h"

namespace callout::tools {

enum ExitCode : int { kSuccess = 0, kFailed = 1, kUnusable = 2 };

/// XLA:CPU has no more in a process, and takes long to say so.
inline constexpr int kMaxDevices = 2048;

/// Writes the error to standard error, and returns the exit code of its cause: kUnusable.
int Refuse(const Status& status);

/// "cpu_device_count" is how the CPU plugin is told; other plugins have the devices that they have. `handlers`: each
/// NAME=lib.so:SYMBOL, a function of XLA FFI for the plugin's platform. InvalidArgument for anything else.
Result<std::shared_ptr<const pjrt::Client>> OpenClient(const std::string& plugin_path, int device_count,
                                                       const std::vector<std::string>& handlers);

/// How many devices the program needs: `wanted` if that is set, or what the program says, or 1. InvalidArgument if both
/// say something else.
Result<int> DevicesOf(const pjrt::Program& program, int wanted);

}  // namespace callout::tools
