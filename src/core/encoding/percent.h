// SPDX-License-Identifier: Apache-2.0
//
// Texts with percent-encoding, in which "%2C" stands for a byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// Returns the byte of two hexadecimal digits at the begin of `text`; nullopt if there are none. Thread-safe.
CALLOUT_EXPORT std::optional<char> HexByte(std::string_view text);

/// Returns the decoded text; nullopt if two hexadecimal digits are missing after a '%'. Thread-safe.
CALLOUT_EXPORT std::optional<std::string> PercentDecoded(std::string_view text);

}  // namespace callout::internal
