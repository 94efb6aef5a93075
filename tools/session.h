// SPDX-License-Identifier: Apache-2.0
//
// Shared parts of the subcommands: opening a plugin and a client with enough devices, and exit codes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "callout/pjrt/executable.h"
#include "progress.h"

namespace callout::tools {

enum ExitCode : int { kSuccess = 0, kFailed = 1, kUnusable = 2 };

/// The most devices that XLA:CPU supports in a process. XLA itself takes long to reject more.
inline constexpr int kMaxDevices = 2048;

/// Writes the error to standard error, and returns kUnusable.
int Refuse(const Status& status);

/// The choice of a plugin, and its options.
struct PluginChoice {
  std::string path;                   ///< Empty: see Plugin::Load.
  std::vector<std::string> options;   ///< Each is NAME=VALUE: true, false, a whole number, a number, or text.
  std::vector<std::string> handlers;  ///< Each is NAME=lib.so:SYMBOL, a handler of XLA FFI for the plugin's platform.
};

/// Opens a client. The CPU plugin gets `device_count` as the option "cpu_device_count", unless the options set it;
/// other plugins have a fixed number of devices. InvalidArgument for malformed options and handlers; other errors are
/// the plugin's.
Result<std::shared_ptr<const pjrt::Client>> OpenClient(const PluginChoice& choice, int device_count);

/// Returns the number of devices for the program: `wanted` if set, or else the program's own number, or 1.
/// InvalidArgument if `wanted` contradicts the program.
Result<int> DevicesOf(const pjrt::Program& program, int wanted);

}  // namespace callout::tools
