// SPDX-License-Identifier: Apache-2.0
//
// Each attribute of each target as data. Handlers decode programs by these rows, Python writes attributes by them, and
// docs/abi.md is generated from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "callout/export.h"

namespace callout::internal {

/// The attribute that every target has: the callback's name, which errors show.
inline constexpr std::string_view kCallbackAttribute = "callback";
/// The attribute of calls that embed the code of their callback.
inline constexpr std::string_view kLibraryAttribute = "library";

/// The types of attributes. kStrings and kRest are only in payloads, see payload.h.
enum class AttributeType { kString, kInteger, kIntegers, kDictionary, kStrings, kRest };

/// The terms of an attribute's values, and its documentation. The defaults allow any value.
struct AttributeTerms {
  int64_t least = std::numeric_limits<int64_t>::min();  ///< Bounds a number, and each number of a list.
  int64_t most = std::numeric_limits<int64_t>::max();
  size_t count = 0;                             ///< Length of a list; 0: any.
  size_t group = 1;                             ///< The length of a list is a multiple of this.
  size_t most_bytes = static_cast<size_t>(-1);  ///< Bounds a string.
  /// The names of the numbers 0, 1, ..., or the allowed strings. Static; empty: any value.
  std::span<const std::string_view> choices{};
  std::string_view absent{};       ///< The meaning of an absent attribute, if no value has that meaning.
  std::string_view since = "0.1";  ///< The first version with the attribute.
};

/// A row of a target's table. Everything that the row refers to is static.
struct AttributeDescription {
  std::string_view name;
  AttributeType type = AttributeType::kString;
  bool is_required = false;
  int64_t fallback = 0;  ///< Default of a number. The default of a string is empty; a list or dictionary is absent.
  AttributeTerms terms{};
  std::string_view meaning{};
  std::span<const AttributeDescription> entries{};  ///< Rows of a dictionary whose entries have fixed names.
  bool has_free_entries = false;                    ///< A dictionary may have other entries, too.
};

struct TargetAttributes {
  std::string_view target;
  std::span<const AttributeDescription> attributes;
};

/// Returns the tables of all targets, sorted by name. Thread-safe.
CALLOUT_EXPORT std::span<const TargetAttributes> AllTargetAttributes();

}  // namespace callout::internal

struct XLA_FFI_Attrs;

namespace callout::internal {

// The form of a table of attributes: a struct with a member for each attribute, which holds the default, and a tuple of
// rows, which holds everything else.
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

/// The rows of a struct; specialised for each struct.
template <typename Struct>
inline constexpr std::tuple<> kAttributeRows;

/// The names of an enumeration's values 0, 1, ...; specialised for each enumeration that is an attribute.
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

// A struct with this member gets the dictionary itself, and reads the entries that have no row.
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

/// Describes an attribute that may be absent: the member of a default-constructed Struct has the default.
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

/// Describes an attribute that a compiler or partitioner reads, not a handler.
template <typename Value>
constexpr UnboundRow Unbound(std::string_view name, const Value& fallback, std::string_view meaning,
                             AttributeTerms terms = {}) {
  return {attribute_rows::Describe(name, fallback, meaning, terms)};
}

}  // namespace callout::internal
