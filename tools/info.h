// SPDX-License-Identifier: Apache-2.0
//
// `callout info`: prints what a program takes, returns and calls, and describes a plugin.
#pragma once

#include <string>

#include "session.h"

namespace callout::tools {

struct InfoOptions {
  std::string program;  ///< Empty: only the plugin is described.
  PluginChoice plugin;
  int device_count = 0;
  bool compiles = true;  ///< False: only the file is described, without a plugin.
};

/// Returns the exit code of the process: 0, or 2 if the program or the plugin is missing.
int Info(const InfoOptions& options);

}  // namespace callout::tools
