// SPDX-License-Identifier: Apache-2.0
//
// What zarr.json says of an array that grows along its first axis (zarr-specs.readthedocs.io, version 3): regular
// chunks, uncompressed, little-endian.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

struct ZarrArray {
  DType dtype = DType::kInvalid;    ///< One that StoredType returns.
  std::vector<int64_t> shape = {};  ///< Behind the rows.
  std::vector<int64_t> chunk = {};  ///< Likewise, of one writer.
  int64_t rows = 0;                 ///< Of the shape: at least those that are written.
  int64_t chunk_rows = 0;
  /// How many rows each writer has written, by its chunks' indices behind the first, "0/1".
  std::map<std::string, int64_t> written = {};
};

/// Whether a file can have as many bytes as a chunk of it.
bool HasChunkBytes(const ZarrArray& array);

/// A group's zarr.json.
std::string ZarrGroupText();

/// An array's zarr.json.
std::string ZarrArrayText(const ZarrArray& array);

/// Reads bytes that may be anything. InvalidArgument for what is no array, and for arrays that no sink writes.
CALLOUT_EXPORT Result<ZarrArray> ParseZarrArray(std::string_view text);

/// Whether it is a group's zarr.json.
CALLOUT_EXPORT bool IsZarrGroup(std::string_view text);

}  // namespace callout::internal
