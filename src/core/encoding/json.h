// SPDX-License-Identifier: Apache-2.0
//
// JSON: read strictly by RFC 8259, of bytes that may be anything, and written string by string.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"

namespace callout::internal {

struct CALLOUT_EXPORT Json {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text = {};  ///< Of a string, decoded; of a number, its digits.
  double number = 0;
  std::vector<Json> items = {};
  std::map<std::string, Json> members = {};

  // The member or item is there.
  const Json& operator[](const std::string& name) const { return members.at(name); }
  const Json& operator[](size_t i) const { return items.at(i); }
  /// Null for one that is not there, and for what is no object.
  const Json* Find(const std::string& name) const;
  /// The number, if it is an integer of 64 bits that is written as one.
  std::optional<int64_t> Integer() const;
};

/// Nothing if `text` is not one JSON value and nothing else, or has more than 64 of them in each other. Thread-safe.
CALLOUT_EXPORT std::optional<Json> ParseJson(std::string_view text);

/// Appends `text` as a JSON string, quotes included. A byte that is not UTF-8 becomes U+FFFD: readers refuse it.
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace callout::internal
