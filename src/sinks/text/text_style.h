// SPDX-License-Identifier: Apache-2.0
//
// Colours of printed records.
#pragma once

#include <string_view>

namespace callout::internal {

/// What stands around a name and a value. Empty: no colours.
struct Colours {
  std::string_view name;
  std::string_view value;
  std::string_view end;
};

inline constexpr Colours kNoColours = {};
inline constexpr Colours kTerminalColours = {.name = "\x1b[1m", .value = "\x1b[36m", .end = "\x1b[0m"};

}  // namespace callout::internal
