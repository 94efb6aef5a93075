// SPDX-License-Identifier: Apache-2.0
//
// `callout info`: what a program takes, returns and calls; what a plugin is.
#pragma once

#include <string>

#include "session.h"

namespace callout::tools {

struct InfoOptions {
  std::string program;  ///< Empty: only of the plugin.
  PluginChoice plugin;
  int device_count = 0;
  bool compiles = true;  ///< False: only what the file says, without a plugin.
};

/// Returns the process's exit code: 0, or 2 if there is no such program or plugin.
int Info(const InfoOptions& options);

}  // namespace callout::tools
