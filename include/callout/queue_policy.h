// SPDX-License-Identifier: Apache-2.0
//
// What a tap does when the queue of its device is full.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace callout {

/// What a tap does when the queue is full.
enum class OverflowPolicy : int32_t {
  kBlock = 0,       ///< The program waits until there is room. Nothing is lost.
  kDropNewest = 1,  ///< The record is not taken, and counted as dropped.
  kFail = 2,        ///< The program fails with RESOURCE_EXHAUSTED.
};

/// What `on_full=` calls them, by their numbers.
inline constexpr std::array<std::string_view, 3> kOverflowPolicyNames = {"block", "drop_newest", "fail"};

}  // namespace callout
