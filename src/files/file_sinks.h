// SPDX-License-Identifier: Apache-2.0
//
// Receivers of taps that write files: see sinks/file_output.h for what files have in common, and for the errors of
// making one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "files/file_output.h"
#include "registry/callback.h"

namespace callout::internal {

/// Appends one JSON object a record to the file at `path`, created if missing:
/// (a leaf with the name of one of these members is written as "value.<leaf>"):
///   {"name": label, "device": 0, "run": 1, "seq": 7, "time": 1700000000.25, "value": 0.5}
/// A value of several leaves has them as members ("loss": 0.5, ...) instead of "value"; "step" follows the name where
/// the tap was told one. `fields` = false leaves out all but name, step and values.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeJsonLinesSink(std::string label, const std::string& path,
                                                                   const FileOptions& options, bool fields);

/// A line a record, with the columns of the file's first line (RFC 4180). `columns`: those, of which leaves may be
/// some; empty: those of a file that is appended to, else "name", "step", "device", "time" and the leaves of the first
/// record. docs/sinks.md has the rules. Errors: InvalidArgument if the file has other columns, too.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeCsvSink(std::string label, const std::string& path,
                                                             const FileOptions& options,
                                                             std::vector<std::string> columns);

enum class SummaryKind { kScalar, kHistogram, kImage, kText };

struct TensorBoardOptions {
  /// See FileOptions.
  double fsync_seconds = FileOptions::kNever;
  /// The first pattern (fnmatch) that a leaf's name or tag matches gives its kind. Others are scalars if they have no
  /// dimensions, and histograms.
  std::vector<std::pair<std::string, SummaryKind>> kinds = {};
};

/// Writes an event file of TensorBoard's to the folder `logdir`, created if missing.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeTensorBoardSink(std::string label, const std::string& logdir,
                                                                     const TensorBoardOptions& options);

/// Writes what a sink that writes a file has got, and lets go of the file: further records are errors.
/// InvalidArgument for any other callback. Thread-safe.
CALLOUT_EXPORT Status CloseFile(Callback& sink);

}  // namespace callout::internal
