// SPDX-License-Identifier: Apache-2.0
//
// Numbers that tests of watches and checks look for.
#pragma once

#include <limits>

namespace callout::internal {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace callout::internal
