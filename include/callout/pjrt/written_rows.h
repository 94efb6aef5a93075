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

/// A cell of a row, with the name of its column.
struct WrittenCell {
  /// The kinds of cells.
  enum class Kind {
    kNothing,  ///< The row has no value there.
    kText,     ///< Plain text.
    kJson,     ///< JSON: a number or nested lists.
  };

  std::string name;            ///< Name of a leaf, or of a field that sinks add: "step", "device", ...
  Kind kind = Kind::kNothing;  ///< Kind of `text`.
  std::string text;            ///< Empty for kNothing.
};

/// A row in the order of its columns.
using WrittenRow = std::vector<WrittenCell>;

/// A function that gets each row. Returns false to stop. Called on the caller's thread.
using VisitRow = std::function<bool(const WrittenRow& row)>;

/// Calls `visit` with each row of a file or folder. The first bytes decide the kind of the file, whatever its contents.
/// A writer may still be appending; an incomplete row at the end is left out. Errors: NotFound, PermissionDenied,
/// InvalidArgument with the path and the problem.
CALLOUT_EXPORT Status ForEachWrittenRow(const std::string& path, const VisitRow& visit);

/// Appends the contents of a cell, as JSON.
CALLOUT_EXPORT void AppendCellJson(const WrittenCell& cell, std::string& out);

/// Appends `text` as a cell of a CSV file, in quotes if the text needs them.
CALLOUT_EXPORT void AppendCellCsv(std::string_view text, std::string& out);

}  // namespace callout::pjrt
