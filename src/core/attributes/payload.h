// SPDX-License-Identifier: Apache-2.0
//
// Names that describe their callback, "check:1;raise;...". After the kind come the number of the format, 1, and the
// fields of a table, in the order of its rows, separated by ';'. docs/abi.md has the tables. The rows have the form of
// attributes (attribute_rows.h); a field's member is one of
//
//   an enumeration            one of its words, see kChoices
//   int64_t                   a decimal number
//   std::string               a text, in which "%3B" stands for a byte: ';', ',', '%' and control characters
//   std::vector<int64_t>      numbers, separated by ','
//   std::vector<std::string>  texts, separated by ','
//   RestOfPayload             the unchanged rest of the text: the last field
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/attributes/attribute_rows.h"

namespace callout::internal {

struct RestOfPayload {
  std::string text;
};

/// Decodes a payload. `subject` is its name in errors: "a check". InvalidArgument, with the problem, for any text that
/// does not fit the table, since a payload may come from anywhere. Thread-safe.
template <typename Struct>
Result<Struct> DecodePayload(std::string_view subject, std::string_view payload);

namespace payload {

/// The largest size of a payload.
inline constexpr size_t kMostBytes = 1 << 20;

struct Form {
  std::string_view subject;
  std::span<const AttributeDescription> rows;
};

/// Returns an error such as "callout: a check must be '1;action;...', with 'raise' or 'warn', got 'shout'".
CALLOUT_EXPORT Status Wrong(const Form& form, std::string_view what, std::string_view found);

/// Splits a payload into a text for each row.
CALLOUT_EXPORT Result<std::vector<std::string_view>> Split(const Form& form, std::string_view payload);

// Each overload of Read serves one type of member.
CALLOUT_EXPORT Status Read(const Form& form, const AttributeDescription& row, std::string_view field, int64_t* out);
CALLOUT_EXPORT Status Read(const Form& form, const AttributeDescription& row, std::string_view field, std::string* out);
CALLOUT_EXPORT Status Read(const Form& form, const AttributeDescription& row, std::string_view field,
                           std::vector<int64_t>* out);
CALLOUT_EXPORT Status Read(const Form& form, const AttributeDescription& row, std::string_view field,
                           std::vector<std::string>* out);
CALLOUT_EXPORT Status Read(const Form& form, const AttributeDescription& row, std::string_view field,
                           RestOfPayload* out);
CALLOUT_EXPORT Result<size_t> ReadChoice(const Form& form, const AttributeDescription& row, std::string_view field);

template <typename Enum>
  requires std::is_enum_v<Enum>
Status Read(const Form& form, const AttributeDescription& row, std::string_view field, Enum* out) {
  CALLOUT_ASSIGN_OR_RETURN(const size_t choice, ReadChoice(form, row, field));
  *out = static_cast<Enum>(choice);
  return OkStatus();
}

template <typename Value>
constexpr AttributeType TypeOf() {
  if constexpr (std::is_same_v<Value, int64_t>) return AttributeType::kInteger;
  if constexpr (std::is_same_v<Value, std::vector<int64_t>>) return AttributeType::kIntegers;
  if constexpr (std::is_same_v<Value, std::vector<std::string>>) return AttributeType::kStrings;
  if constexpr (std::is_same_v<Value, RestOfPayload>) return AttributeType::kRest;
  return AttributeType::kString;
}

}  // namespace payload

/// Describes a field of a payload, a row of its table.
template <typename Struct, typename Value>
constexpr AttributeRow<Struct, Value> Field(std::string_view name, Value Struct::* member, std::string_view meaning,
                                            AttributeTerms terms = {}) {
  if constexpr (std::is_enum_v<Value>) terms.choices = kChoices<Value>;
  return {{.name = name, .type = payload::TypeOf<Value>(), .is_required = true, .terms = terms, .meaning = meaning},
          member};
}

template <typename Struct>
Result<Struct> DecodePayload(std::string_view subject, std::string_view payload) {
  const payload::Form form = {subject, kDescriptions<Struct>};
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<std::string_view> fields, payload::Split(form, payload));
  Struct decoded;
  Status status;
  size_t i = 0;
  std::apply(
      [&](const auto&... rows) {
        (void)(... && (status = payload::Read(form, rows.description, fields[i++], &(decoded.*rows.member))).ok());
      },
      kAttributeRows<Struct>);
  if (!status.ok()) return status;
  return decoded;
}

}  // namespace callout::internal
