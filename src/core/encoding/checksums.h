// SPDX-License-Identifier: Apache-2.0
//
// The two 32-bit checksums that file formats ask for, and SHA-256 (FIPS 180-4).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// That of PNG and zlib. `before`: the checksum of what stands in front of `bytes`. Thread-safe.
CALLOUT_EXPORT uint32_t Crc32(std::string_view bytes, uint32_t before = 0);

/// That of iSCSI and TFRecord (Castagnoli), by the processor's instruction where it has one. Thread-safe.
CALLOUT_EXPORT uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

/// Crc32c without the instruction, for tests.
CALLOUT_EXPORT uint32_t Crc32cByTable(std::string_view bytes, uint32_t before = 0);

/// 64 lowercase hexadecimal digits. Thread-safe.
CALLOUT_EXPORT std::string Sha256Hex(std::string_view bytes);

}  // namespace callout::internal
