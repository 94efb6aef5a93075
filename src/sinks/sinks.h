// SPDX-License-Identifier: Apache-2.0
//
// Receivers of taps that need no Python. They run on the native lane's thread, one record at a time, so they lock
// nothing.
#pragma once

#include <memory>
#include <string>

#include "registry/callback.h"

namespace callout::internal {

/// Takes and forgets.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeNullSink(std::string label);

/// Writes "label: value" lines (with the leaves' names for a value of several) to the file descriptor `fd`, which it
/// does not own; -1: standard output. One write a batch.
CALLOUT_EXPORT std::shared_ptr<Callback> MakePrintSink(std::string label, int fd);

/// Appends one JSON object a record to the file at `path`, created if missing:
/// (a leaf with the name of one of these members is written as "value.<leaf>"):
///   {"name": label, "device": 0, "run": 1, "seq": 7, "time": 1700000000.25, "value": 0.5}
/// A value of several leaves has them as members ("loss": 0.5, ...) instead of "value". `fields` = false leaves out all
/// but name and values. Written at the end of each batch. Errors: NotFound, PermissionDenied with the path.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeJsonLinesSink(std::string label, const std::string& path,
                                                                   bool append, bool fields);

}  // namespace callout::internal
