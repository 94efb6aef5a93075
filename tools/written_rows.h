// SPDX-License-Identifier: Apache-2.0
//
// The rows of any file that a sink writes: JSON lines, CSV, Arrow streams, .npy, Zarr and TensorBoard.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "callout/status.h"

namespace callout::tools {

struct WrittenCell {
  enum class Kind { kNothing, kText, kJson };  ///< JSON: a number or nested lists.

  std::string name;
  Kind kind = Kind::kNothing;
  std::string text;
};

using WrittenRow = std::vector<WrittenCell>;

/// Returns false if it wants no more.
using VisitRow = std::function<bool(const WrittenRow& row)>;

/// The file, or folder, may hold anything: what kind it is is seen by its first bytes. A row at the end that was not
/// written whole is none. Errors: NotFound, PermissionDenied, InvalidArgument with the path and what is wrong.
Status ForEachWrittenRow(const std::string& path, const VisitRow& visit);

/// What is in a cell, as JSON.
void AppendCellJson(const WrittenCell& cell, std::string& out);

}  // namespace callout::tools
