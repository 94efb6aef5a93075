// SPDX-License-Identifier: Apache-2.0
//
// NumPy's files of several arrays: zip archives of ".npy" files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "callout/status.h"

namespace callout::tools {

using NamedArrays = std::vector<std::pair<std::string, Array>>;

/// The arrays in the order of the archive, without the ".npy" of the names. `raw`: see ParseNpy, for each array in
/// turn; the last one for the rest. `only`: the one array that is wanted, of the first of `raw`; empty for all. Errors:
/// NotFound, InvalidArgument with the path; Unimplemented without minizip.
Result<NamedArrays> ReadNpz(const std::string& path, const std::vector<DType>& raw = {}, const std::string& only = {});

/// Writes the file anew, or not at all; of a link, what it leads to. Errors: with the path, InvalidArgument for what is
/// no regular file; Unimplemented without minizip.
Status WriteNpz(const std::string& path, const NamedArrays& arrays);

}  // namespace callout::tools
