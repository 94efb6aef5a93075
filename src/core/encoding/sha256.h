// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4).
#pragma once

#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// 64 lowercase hexadecimal digits. Thread-safe.
CALLOUT_EXPORT std::string Sha256Hex(std::string_view bytes);

}  // namespace callout::internal
