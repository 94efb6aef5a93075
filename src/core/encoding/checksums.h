// SPDX-License-Identifier: Apache-2.0
//
// The two 32-bit checksums of file formats, and SHA-256 (FIPS 180-4).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// Returns the checksum of PNG and zlib. `before` is the checksum of the preceding bytes. Thread-safe.
CALLOUT_EXPORT uint32_t Crc32(std::string_view bytes, uint32_t before = 0);

/// Returns the checksum of iSCSI and TFRecord (Castagnoli), by the processor's instruction if it has one. Thread-safe.
CALLOUT_EXPORT uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

/// Computes Crc32c without the instruction, for tests. Thread-safe.
CALLOUT_EXPORT uint32_t Crc32cByTable(std::string_view bytes, uint32_t before = 0);

/// Returns the SHA-256 as 64 lowercase hexadecimal digits. Thread-safe.
CALLOUT_EXPORT std::string Sha256Hex(std::string_view bytes);

}  // namespace callout::internal
