// SPDX-License-Identifier: Apache-2.0
//
// The options that sinks which write files share.
#pragma once

#include <limits>

#include "sinks/files/file_output.h"
#include "sinks/sink_kind.h"

namespace callout::internal {

inline constexpr SinkOption kPathOption = {"path", OptionType::kPath, "needed", "the file, created if missing"};
inline constexpr SinkOption kAppendOption = {"append", OptionType::kFlag, "false",
                                             "keep what the file holds, but for a torn record at its end"};
inline constexpr SinkOption kFsyncOption = {"fsync", OptionType::kText, "never",
                                            "`never`, after each `batch`, or at most every so many seconds"};
inline constexpr SinkOption kRotateOption = {"rotate_bytes", OptionType::kInteger, "never",
                                             "a file that would become larger is renamed to PATH.1", 1};
inline constexpr SinkOption kKeepOption = {"keep", OptionType::kInteger,           "all", "how many renamed files stay",
                                           1,      std::numeric_limits<int>::max()};

/// `fsync`, as FileOptions has it. InvalidArgument if it is none of the three.
Result<double> FsyncSeconds(const SinkOptions& options);

/// All of them. InvalidArgument if they do not go together.
Result<FileOptions> FileOptionsOf(const SinkOptions& options);

}  // namespace callout::internal
