// SPDX-License-Identifier: Apache-2.0
//
// Receivers of taps that need no Python. They run on the native worker's thread, one record at a time, so they lock
// nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "callout/dtype.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// InvalidArgument if `format` is malformed or asks for what a value of these leaves has not. Thread-safe.
CALLOUT_EXPORT Status CheckPrintFormat(const std::string& format, std::span<const std::string> leaf_names,
                                       std::span<const DType> dtypes);

/// Hands every record to each of `receivers`, in their order; one that fails keeps it from no other. The first error is
/// the tee's, and says how many there were. Their own statistics count what they got. Error: InvalidArgument if there
/// is none, or a Python function among them.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeTeeSink(std::string label,
                                                             std::vector<std::shared_ptr<Callback>> receivers);

}  // namespace callout::internal
