// SPDX-License-Identifier: Apache-2.0
//
// The TFRecord format. Each record is stored as
//   its length (8 bytes) | masked CRC-32C of the length (4) | the record | masked CRC-32C of the record (4)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

void AppendTfRecord(std::string_view record, std::string& out);

/// Reads the record at `offset` of a file of `size` bytes, and advances `offset` past it. Returns nothing if no whole
/// record with valid checksums is there.
CALLOUT_EXPORT std::optional<std::string> ReadTfRecord(int fd, uint64_t& offset, uint64_t size);

}  // namespace callout::internal
