// SPDX-License-Identifier: Apache-2.0
//
// Reads the rows of files that hold arrays, for written_rows.h.
#pragma once

#include <cstdint>
#include <string>

#include "callout/pjrt/written_rows.h"

namespace callout::pjrt {

/// A file that is open for reading, and its size.
struct OpenedFile {
  int fd = -1;
  uint64_t size = 0;
};

/// These functions visit rows until `visit` returns false, which is no error. Errors: InvalidArgument, Internal.
Status ForEachArrowRow(const OpenedFile& file, const VisitRow& visit);
Status ForEachNpyRow(const OpenedFile& file, const VisitRow& visit);
/// Visits the rows of one of TensorBoard's event files, one for each value.
Status ForEachEvent(const OpenedFile& file, const VisitRow& visit);
/// Visits the rows in the folder of a Zarr store, a group or an array.
Status ForEachZarrRow(const std::string& folder, const VisitRow& visit);

/// Reads exactly `bytes` bytes at an offset. InvalidArgument if the file ends earlier.
Status ReadFileAt(int fd, uint64_t offset, uint64_t bytes, std::string& out);

}  // namespace callout::pjrt
