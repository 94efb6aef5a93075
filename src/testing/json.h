// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON back, strictly by RFC 8259 (ASCII escapes only up to \u00ff): what a sink wrote is judged by another hand.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callout::internal {

struct Json {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text = {};  ///< Of a string, decoded; of a number, its digits.
  double number = 0;
  std::vector<Json> items = {};
  std::map<std::string, Json> members = {};

  const Json& operator[](const std::string& name) const { return members.at(name); }
  const Json& operator[](size_t i) const { return items.at(i); }
};

/// Nothing if `text` is not one JSON value and nothing else.
std::optional<Json> ParseJson(std::string_view text);

}  // namespace callout::internal
