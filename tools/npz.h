// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npz files of several arrays: zip archives of ".npy" files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "callout/status.h"

namespace callout::tools {

using NamedArrays = std::vector<std::pair<std::string, Array>>;

/// Reads arrays in the order of the archive, with names without ".npy". `raw` has a type for each array in turn, see
/// ParseNpy; the last type serves all further arrays. `only` is the name of the single array to read, which uses the
/// first of `raw`; empty for all. Errors: NotFound, and InvalidArgument with the path; Unimplemented without minizip.
Result<NamedArrays> ReadNpz(const std::string& path, const std::vector<DType>& raw = {}, const std::string& only = {});

/// Replaces the file, or leaves it alone on an error. Follows a symbolic link. Errors, with the path: InvalidArgument
/// if it is no regular file; Unimplemented without minizip.
Status WriteNpz(const std::string& path, const NamedArrays& arrays);

}  // namespace callout::tools
