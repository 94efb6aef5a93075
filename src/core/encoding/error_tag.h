// SPDX-License-Identifier: Apache-2.0
//
// Tags by which a failure crosses interfaces that carry only a code and a text: XLA, and a plugin's errors. The text
// ends in a tag: "[callout error result of 5be1c2]" has a kind, and "[callout error 7 of 5be1c2]" the number of a
// Python exception. The last word is the process's random token. The last tag of a text counts: the core appends one to
// every text, so a tag inside a callback's own text has no effect. python/callout/_base/errors.py reads the same tags.
#pragma once

#include <string>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// Returns the random token of this process; a forked child has its own. Thread-safe.
CALLOUT_EXPORT std::string ErrorToken();

/// Returns the message of a failure, as UTF-8 and up to its first zero, with its tag on a line of its own. Thread-safe.
CALLOUT_EXPORT std::string TaggedMessage(const Status& failure);

/// Returns the failure for a text with or without tags of this process, which the message then lacks. Thread-safe.
CALLOUT_EXPORT Status FromTaggedMessage(StatusCode code, std::string text);

}  // namespace callout::internal
