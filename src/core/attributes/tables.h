// SPDX-License-Identifier: Apache-2.0
//
// Each attribute of each target as data: programs are decoded by it, Python writes them by it, and docs/abi.md is
// generated from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// The attribute that every target has: the name that errors show.
inline constexpr std::string_view kCallbackAttribute = "callback";
/// The attribute of calls that carry what they call.
inline constexpr std::string_view kLibraryAttribute = "library";

enum class AttributeType { kString, kInteger, kIntegers, kDictionary };

/// What a value may be, and what is said of it. The defaults allow any value.
struct AttributeTerms {
  int64_t least = std::numeric_limits<int64_t>::min();  ///< Of a number, and of each in a list.
  int64_t most = std::numeric_limits<int64_t>::max();
  size_t count = 0;                             ///< A list has so many numbers; 0: any.
  size_t group = 1;                             ///< A list has a multiple of so many.
  size_t most_bytes = static_cast<size_t>(-1);  ///< Of a string.
  /// What the numbers 0, 1, ... are called, or what a string may be. Static; empty: anything.
  std::span<const std::string_view> choices{};
  std::string_view absent{};       ///< What its absence means, where that is no value.
  std::string_view since = "0.1";  ///< The version that brought it.
};

/// A row of a target's table. All that it refers to is static.
struct AttributeDescription {
  std::string_view name;
  AttributeType type = AttributeType::kString;
  bool is_required = false;
  int64_t fallback = 0;  ///< Of a number. A string is empty by default, a list and a dictionary are not there.
  AttributeTerms terms{};
  std::string_view meaning{};
  std::span<const AttributeDescription> entries{};  ///< Of a dictionary, if they have names of ours.
  bool has_free_entries = false;                    ///< It may have others, too.
};

struct TargetAttributes {
  std::string_view target;
  std::span<const AttributeDescription> attributes;
};

/// Sorted by name. Thread-safe.
CALLOUT_EXPORT std::span<const TargetAttributes> AllTargetAttributes();

}  // namespace callout::internal
