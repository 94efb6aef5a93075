// SPDX-License-Identifier: Apache-2.0
//
// The rows of any file that a sink writes: JSON lines, CSV, Arrow streams, .npy, Zarr and TensorBoard. All functions
// are thread-safe; the GIL is not needed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::pjrt {

/// What a row has under a name.
struct WrittenCell {
  /// What a cell holds.
  enum class Kind {
    kNothing,  ///< The row has nothing there.
    kText,     ///< A text as it is.
    kJson,     ///< JSON: a number or nested lists.
  };

  std::string name;            ///< Of the leaf, or of what sinks write beside it: "step", "device", ...
  Kind kind = Kind::kNothing;  ///< What `text` is.
  std::string text;            ///< Empty for kNothing.
};

/// A row in the order of its columns.
using WrittenRow = std::vector<WrittenCell>;

/// Returns false if it wants no more. Called on the caller's thread.
using VisitRow = std::function<bool(const WrittenRow& row)>;

/// The file, or folder, may hold anything, and its writer may still add to it: what kind it is is seen by its first
/// bytes. A row at the end that was not written whole is none. Errors: NotFound, PermissionDenied, InvalidArgument with
/// the path and what is wrong.
CALLOUT_EXPORT Status ForEachWrittenRow(const std::string& path, const VisitRow& visit);

/// Appends what is in a cell, as JSON.
CALLOUT_EXPORT void AppendCellJson(const WrittenCell& cell, std::string& out);

/// Appends `text` as a cell of a CSV file, in quotes where it needs them.
CALLOUT_EXPORT void AppendCellCsv(std::string_view text, std::string& out);

}  // namespace callout::pjrt
