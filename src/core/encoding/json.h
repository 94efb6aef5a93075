// SPDX-License-Identifier: Apache-2.0
//
// JSON: a reader that is strict by RFC 8259 and safe for any bytes, and a writer of strings.
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
  std::string text = {};  ///< Decoded text of a string; digits of a number.
  double number = 0;
  std::vector<Json> items = {};
  std::map<std::string, Json> members = {};

  // Returns a member or an item, which must exist.
  const Json& operator[](const std::string& name) const { return members.at(name); }
  const Json& operator[](size_t i) const { return items.at(i); }
  /// Returns a member; null if it is missing, and for a value that is no object.
  const Json* Find(const std::string& name) const;
  /// Returns the number, if it is a 64-bit integer that is written as one.
  std::optional<int64_t> Integer() const;
};

/// Parses one JSON value. Returns nullopt if `text` is anything else, or nests values more than 64 deep. Thread-safe.
CALLOUT_EXPORT std::optional<Json> ParseJson(std::string_view text);

/// Appends `text` as a JSON string, quotes included. A byte that is not UTF-8 becomes U+FFFD, because readers refuse
/// such bytes.
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace callout::internal
