// SPDX-License-Identifier: Apache-2.0
//
// Callbacks from text that people write on a command line or in a configuration.
#pragma once

#include <string>

#include "callout/export.h"
#include "callout/pjrt/host_callback.h"
#include "callout/status.h"

namespace callout::pjrt {

/// Returns the callback of "NAME=KIND": a sink as OpaqueCallback makes it ("loss=csv,append:FILE"), a kind for which
/// the host has registered a maker, or "NAME=lib.so:SYMBOL". A library without a folder is the one in the working
/// directory if there is one; else the loader searches for the library. NAME may contain a '='. Errors begin with the
/// text: InvalidArgument for text that is no binding; else those of making the callback. Thread-safe. GIL not needed.
CALLOUT_EXPORT Result<LoadedHostCallback> ParseBinding(const std::string& text);

/// Returns the forms of bindings, for people: "NAME=csv:PATH, ..., or NAME=lib.so:SYMBOL". Thread-safe. GIL not needed.
CALLOUT_EXPORT std::string BindingForms();

/// Returns a description of the callback for a name that programs make themselves, such as "print" for an `id_print`;
/// null for a name that needs a binding. Borrowed: valid until the process ends. Thread-safe. GIL not needed.
CALLOUT_EXPORT const char* KindWithoutBinding(const std::string& name);

}  // namespace callout::pjrt
