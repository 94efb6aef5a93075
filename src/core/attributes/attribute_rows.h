// SPDX-License-Identifier: Apache-2.0
//
// Each attribute of each target as data: programs are decoded by these rows, Python writes attributes by them, and
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

struct XLA_FFI_Attrs;

namespace callout::internal {

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
