// SPDX-License-Identifier: Apache-2.0
//
// The TFRecord format: of each record
//   its length (8 bytes) | masked CRC-32C of the length (4) | the record | masked CRC-32C of the record (4)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

void AppendTfRecord(std::string_view record, std::string& out);

/// The record at `offset` of a file of `size` bytes, which goes behind it. Nothing if no whole one with its checksums
/// is there.
CALLOUT_EXPORT std::optional<std::string> ReadTfRecord(int fd, uint64_t& offset, uint64_t size);

}  // namespace callout::internal
