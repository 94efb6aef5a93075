// SPDX-License-Identifier: Apache-2.0
//
// Texts in which "%2C" stands for a byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// The byte that the first two characters say in hexadecimal digits; nothing if they are none. Thread-safe.
CALLOUT_EXPORT std::optional<char> HexByte(std::string_view text);

/// `text` with its bytes in their places; nothing if two hexadecimal digits are missing behind a '%'. Thread-safe.
CALLOUT_EXPORT std::optional<std::string> PercentDecoded(std::string_view text);

}  // namespace callout::internal
