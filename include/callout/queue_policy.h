// SPDX-License-Identifier: Apache-2.0
//
// The policies for a tap whose device has a full queue.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace callout {

/// How a tap acts when the queue is full.
enum class OverflowPolicy : int32_t {
  kBlock = 0,       ///< The program waits until there is room. No record is lost.
  kDropNewest = 1,  ///< The tap drops its record and counts the drop.
  kFail = 2,        ///< The program fails with RESOURCE_EXHAUSTED.
};

/// The names of the policies in `on_full=`, by their numbers.
inline constexpr std::array<std::string_view, 3> kOverflowPolicyNames = {"block", "drop_newest", "fail"};

}  // namespace callout
