// SPDX-License-Identifier: Apache-2.0
//
// What the subcommands share: a plugin, a client with devices enough, a compiled program; and how they end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "callout/pjrt/executable.h"
#include "progress.h"

namespace callout::tools {

enum ExitCode : int { kSuccess = 0, kFailed = 1, kUnusable = 2 };

/// XLA:CPU has no more in a process, and takes long to say so.
inline constexpr int kMaxDevices = 2048;

/// Writes the error to standard error, and returns the exit code of its cause: kUnusable.
int Refuse(const Status& status);

/// Which plugin, and what it is told.
struct PluginChoice {
  std::string path;                   ///< Empty: see Plugin::Load.
  std::vector<std::string> options;   ///< Each NAME=VALUE: true, false, a whole number, a number, or text.
  std::vector<std::string> handlers;  ///< Each NAME=lib.so:SYMBOL, a function of XLA FFI for the plugin's platform.
};

/// "cpu_device_count" is how the CPU plugin is told of `device_count`, unless the options say it; other plugins have
/// the devices that they have. InvalidArgument for options and handlers that are none; else the plugin's errors.
Result<std::shared_ptr<const pjrt::Client>> OpenClient(const PluginChoice& choice, int device_count);

/// How many devices the program needs: `wanted` if that is set, or what the program says, or 1. InvalidArgument if both
/// say something else.
Result<int> DevicesOf(const pjrt::Program& program, int wanted);

}  // namespace callout::tools
