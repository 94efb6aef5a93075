// SPDX-License-Identifier: Apache-2.0
//
// The rows of files with arrays in them, for written_rows.h.
#pragma once

#include <cstdint>
#include <string>

#include "callout/pjrt/written_rows.h"

namespace callout::pjrt {

/// Bytes of a file that is open for reading.
struct OpenedFile {
  int fd = -1;
  uint64_t size = 0;
};

/// `visit` returning false is no error. Errors: InvalidArgument, Internal.
Status ForEachArrowRow(const OpenedFile& file, const VisitRow& visit);
Status ForEachNpyRow(const OpenedFile& file, const VisitRow& visit);
/// Visits the rows of an event file of TensorBoard's, one a value.
Status ForEachEvent(const OpenedFile& file, const VisitRow& visit);
/// Visits the rows in the folder of a Zarr store, a group or an array.
Status ForEachZarrRow(const std::string& folder, const VisitRow& visit);

/// All bytes at a place, as many as that: InvalidArgument where the file ends before.
Status ReadFileAt(int fd, uint64_t offset, uint64_t bytes, std::string& out);

}  // namespace callout::pjrt
