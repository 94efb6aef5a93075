// SPDX-License-Identifier: Apache-2.0
#include "core/attributes/decode.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/cat.h"

namespace callout::internal::attribute_rows {
namespace {

constexpr size_t kShownBytes = 64;  // bytes of a text that an error shows

std::string Quoted(std::string_view name) { return "'" + std::string(name.substr(0, kShownBytes)) + "'"; }

// Returns an error such as "attribute 'every' must be at least 1, got 0".
Status Wrong(const AttributeDescription& row, const std::string& expected, const std::string& got) {
  return InvalidArgument("attribute " + Quoted(row.name) + " must " + expected + ", got " + got);
}

const char* Expected(AttributeType type) {
  switch (type) {
    case AttributeType::kString:
      return "be a string";
    case AttributeType::kInteger:
      return "be a 64-bit integer";
    case AttributeType::kIntegers:
      return "be an array of 64-bit integers";
    case AttributeType::kDictionary:
    case AttributeType::kStrings:
    case AttributeType::kRest:
      break;
  }
  return "be a dictionary";
}

// Returns the name of the type that the program has instead.
const char* Found(XLA_FFI_AttrType type) {
  switch (type) {
    case XLA_FFI_AttrType_ARRAY:
      return "an array";
    case XLA_FFI_AttrType_DICTIONARY:
      return "a dictionary";
    case XLA_FFI_AttrType_SCALAR:
      return "a number";
    case XLA_FFI_AttrType_STRING:
      return "a string";
    default:
      return "something else";
  }
}

// Returns the value of an attribute; null if it is absent. An error if it has another type.
Result<const void*> Find(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, XLA_FFI_AttrType type) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != row.name) continue;
    if (attrs.types[i] == type) return static_cast<const void*>(attrs.attrs[i]);
    return Wrong(row, Expected(row.type), Found(attrs.types[i]));
  }
  if (row.is_required) {
    return InvalidArgument("attribute " + Quoted(row.name) + " is missing; it must " + Expected(row.type));
  }
  return static_cast<const void*>(nullptr);
}

Status CheckNumber(const AttributeDescription& row, int64_t number) {
  const AttributeTerms& terms = row.terms;
  if (number >= terms.least && number <= terms.most) return OkStatus();
  std::string expected = Cat("be at least ", terms.least);
  if (!terms.choices.empty()) {
    expected = "be ";
    for (size_t i = 0; i < terms.choices.size(); ++i) {
      expected += Cat(i == 0 ? "" : ", ", i, " (", terms.choices[i], ")");
    }
  } else if (terms.most != std::numeric_limits<int64_t>::max()) {
    expected = Cat("be ", terms.least, " to ", terms.most);
  }
  return Wrong(row, expected, std::to_string(number));
}

}  // namespace

Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, std::string_view* out) {
  CALLOUT_ASSIGN_OR_RETURN(const void* found, Find(attrs, row, XLA_FFI_AttrType_STRING));
  if (found == nullptr) return OkStatus();
  const auto* span = static_cast<const XLA_FFI_ByteSpan*>(found);
  const std::string_view text(span->ptr, span->len);
  const AttributeTerms& terms = row.terms;
  if (text.size() > terms.most_bytes) {
    return Wrong(row, Cat("have at most ", terms.most_bytes, " characters"), std::to_string(text.size()));
  }
  if (!terms.choices.empty() && std::find(terms.choices.begin(), terms.choices.end(), text) == terms.choices.end()) {
    return Wrong(row, "be " + Join(terms.choices, " or ", Quoted), Quoted(text));
  }
  *out = text;
  return OkStatus();
}

Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, int64_t* out) {
  CALLOUT_ASSIGN_OR_RETURN(const void* found, Find(attrs, row, XLA_FFI_AttrType_SCALAR));
  if (found == nullptr) return OkStatus();
  const auto* scalar = static_cast<const XLA_FFI_Scalar*>(found);
  if (scalar->dtype != XLA_FFI_DataType_S64) return Wrong(row, Expected(row.type), "a number of another type");
  int64_t number = 0;
  std::memcpy(&number, scalar->value, sizeof(number));
  CALLOUT_RETURN_IF_ERROR(CheckNumber(row, number));
  *out = number;
  return OkStatus();
}

Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, std::span<const int64_t>* out) {
  CALLOUT_ASSIGN_OR_RETURN(const void* found, Find(attrs, row, XLA_FFI_AttrType_ARRAY));
  if (found == nullptr) return OkStatus();
  const auto* array = static_cast<const XLA_FFI_Array*>(found);
  if (array->dtype != XLA_FFI_DataType_S64) return Wrong(row, Expected(row.type), "an array of another type");
  const AttributeTerms& terms = row.terms;
  if (terms.count != 0 && array->size != terms.count) {
    return Wrong(row, Cat("have ", terms.count, " numbers"), std::to_string(array->size));
  }
  if (array->size % terms.group != 0) {
    const std::string groups = terms.group == 2 ? "be pairs" : Cat("be groups of ", terms.group);
    return Wrong(row, groups, Cat(array->size, " numbers"));
  }
  const std::span<const int64_t> numbers(static_cast<const int64_t*>(array->data), array->size);
  for (const int64_t number : numbers) CALLOUT_RETURN_IF_ERROR(CheckNumber(row, number));
  *out = numbers;
  return OkStatus();
}

Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, const XLA_FFI_Attrs** out) {
  CALLOUT_ASSIGN_OR_RETURN(const void* found, Find(attrs, row, XLA_FFI_AttrType_DICTIONARY));
  if (found != nullptr) *out = static_cast<const XLA_FFI_Attrs*>(found);
  return OkStatus();
}

Status OfCallback(const XLA_FFI_Attrs& attrs, const Status& problem) {
  std::string_view callback;
  const bool is_named = Read(attrs, {.name = kCallbackAttribute}, &callback).ok() && !callback.empty();
  return problem.WithMessage("callout: " + (is_named ? "callback " + Quoted(callback) + ": " : std::string()) +
                             std::string(problem.message()));
}

Status InDictionary(std::string_view name, const Status& problem) {
  return problem.WithMessage("in attribute " + Quoted(name) + ": " + std::string(problem.message()));
}

}  // namespace callout::internal::attribute_rows
