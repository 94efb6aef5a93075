// SPDX-License-Identifier: Apache-2.0
//
// Receivers of taps that need no Python. They run on the native lane's thread, one record at a time, so they lock
// nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "callout/dtype.h"
#include "registry/callback.h"

namespace callout::internal {

/// Takes and forgets.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeNullSink(std::string label);

/// Writes "label: value" lines (with the leaves' names for a value of several) to the file descriptor `fd`, which it
/// does not own; -1: standard output. One write a batch.
CALLOUT_EXPORT std::shared_ptr<Callback> MakePrintSink(std::string label, int fd);

enum class PrintColour {
  kAuto,  ///< Where a format or `update` asks for more than plain lines and the terminal, and the user, want colours.
  kAlways,
  kNever,
};

struct PrintOptions {
  std::optional<std::string>
      format;           ///< As Python's str.format, see record_format.h; none: as the other MakePrintSink.
  bool update = false;  ///< On a terminal: one line, which each record writes over.
  PrintColour colour = PrintColour::kAuto;
};

/// InvalidArgument, with the position, for a malformed format. What it asks of a value that has none of it is an error
/// of the record.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakePrintSink(std::string label, int fd, const PrintOptions& options);

/// InvalidArgument if `format` is malformed or asks for what a value of these leaves has not. Thread-safe.
CALLOUT_EXPORT Status CheckPrintFormat(const std::string& format, std::span<const std::string> leaf_names,
                                       std::span<const DType> dtypes);

/// Hands every record to each of `receivers`, in their order; one that fails keeps it from no other. The first error is
/// the tee's, and says how many there were. Their own statistics count what they got. Error: InvalidArgument if there
/// is none, or a Python function among them.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeTeeSink(std::string label,
                                                             std::vector<std::shared_ptr<Callback>> receivers);

}  // namespace callout::internal
