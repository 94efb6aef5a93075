// SPDX-License-Identifier: Apache-2.0
//
// Callbacks from a command line: NAME=print[:FORMAT], NAME=null, NAME=jsonl:FILE, NAME=csv:FILE,
// NAME=tensorboard:FOLDER, NAME=lib.so:SYMBOL.
#pragma once

#include <string>

#include "callout/pjrt/host_callback.h"

namespace callout::tools {

/// InvalidArgument, with the text, for what is no binding; else the errors of making the callback.
Result<pjrt::LoadedHostCallback> ParseBinding(const std::string& text);

}  // namespace callout::tools
