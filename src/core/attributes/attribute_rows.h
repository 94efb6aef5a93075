// SPDX-License-Identifier: Apache-2.0
//
// How a table of attributes is written: a struct with a member for each attribute, which holds its default, and a tuple
// of rows beside it, which say everything else.
//
//   struct PingAttributes {
//     std::string_view callback;
//     int64_t every = 1;
//   };
//
//   template <>
//   inline constexpr auto kAttributeRows<PingAttributes> =
//       std::tuple(Required("callback", &PingAttributes::callback, "the name to look up"),
//                  Optional("every", &PingAttributes::every, "ping the 1st, (every+1)th, ... time", {.least = 1}));
//
// DecodeAttributes<PingAttributes> (attributes/decode.h) fills the struct from a program.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>

#include "core/attributes/tables.h"

struct XLA_FFI_Attrs;

namespace callout::internal {

/// The rows of a struct; specialised for each.
template <typename Struct>
inline constexpr std::tuple<> kAttributeRows;

/// The names of an enumeration's values 0, 1, ...; specialised for each that is an attribute.
template <typename Enum>
inline constexpr std::array<std::string_view, 0> kChoices;

/// An attribute that is decoded into a member.
template <typename Struct, typename Value>
struct AttributeRow {
  AttributeDescription description;
  Value Struct::* member;
};

/// An attribute that no handler decodes.
struct UnboundRow {
  AttributeDescription description;
};

/// The descriptions of a struct's attributes, in the order of its rows.
template <typename Struct>
inline constexpr auto kDescriptions = std::apply(
    [](const auto&... rows) { return std::array<AttributeDescription, sizeof...(rows)>{rows.description...}; },
    kAttributeRows<Struct>);

namespace attribute_rows {

template <typename Value>
inline constexpr bool kIsOptional = false;
template <typename Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

// A struct with this member is given the dictionary itself: it reads entries that have no row.
template <typename Struct>
concept kHasFreeEntries = requires(Struct entries) { entries.all_entries; };

template <typename Value>
constexpr AttributeDescription Describe(std::string_view name, const Value& fallback, std::string_view meaning,
                                        AttributeTerms terms) {
  AttributeDescription description = {.name = name, .terms = terms, .meaning = meaning};
  if constexpr (std::is_same_v<Value, std::string_view>) {
    description.type = AttributeType::kString;
  } else if constexpr (std::is_same_v<Value, std::span<const int64_t>>) {
    description.type = AttributeType::kIntegers;
  } else if constexpr (std::is_same_v<Value, const XLA_FFI_Attrs*>) {
    description.type = AttributeType::kDictionary;
    description.has_free_entries = true;
  } else if constexpr (kIsOptional<Value>) {
    description.type = AttributeType::kDictionary;
    description.entries = kDescriptions<typename Value::value_type>;
    description.has_free_entries = kHasFreeEntries<typename Value::value_type>;
  } else {
    static_assert(std::is_same_v<Value, int64_t> || std::is_same_v<Value, bool> || std::is_enum_v<Value>);
    description.type = AttributeType::kInteger;
    description.fallback = static_cast<int64_t>(fallback);
    if constexpr (std::is_same_v<Value, bool>) {
      description.terms.least = 0;
      description.terms.most = 1;
    } else if constexpr (std::is_enum_v<Value>) {
      static_assert(!kChoices<Value>.empty(), "a number of an enumeration has a name");
      description.terms.choices = kChoices<Value>;
      description.terms.least = 0;
      description.terms.most = static_cast<int64_t>(kChoices<Value>.size()) - 1;
    }
  }
  return description;
}

}  // namespace attribute_rows

/// An attribute that may be absent, and is then what the member is in a new struct.
template <typename Struct, typename Value>
constexpr AttributeRow<Struct, Value> Optional(std::string_view name, Value Struct::* member, std::string_view meaning,
                                               AttributeTerms terms = {}) {
  return {attribute_rows::Describe(name, Struct{}.*member, meaning, terms), member};
}

template <typename Struct, typename Value>
constexpr AttributeRow<Struct, Value> Required(std::string_view name, Value Struct::* member, std::string_view meaning,
                                               AttributeTerms terms = {}) {
  AttributeRow<Struct, Value> row = Optional(name, member, meaning, terms);
  row.description.is_required = true;
  return row;
}

/// An attribute that others than the handler read: a compiler, a partitioner.
template <typename Value>
constexpr UnboundRow Unbound(std::string_view name, const Value& fallback, std::string_view meaning,
                             AttributeTerms terms = {}) {
  return {attribute_rows::Describe(name, fallback, meaning, terms)};
}

}  // namespace callout::internal
