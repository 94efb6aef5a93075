// SPDX-License-Identifier: Apache-2.0
//
// Callbacks from a command line: NAME=SINK, as src/kinds/kinds.h reads it, or NAME=lib.so:SYMBOL.
#pragma once

#include <string>

#include "callout/pjrt/host_callback.h"

namespace callout::tools {

/// What may be written, for people.
std::string BindingForms();

/// InvalidArgument, with the text, for what is no binding; else the errors of making the callback.
Result<pjrt::LoadedHostCallback> ParseBinding(const std::string& text);

}  // namespace callout::tools
