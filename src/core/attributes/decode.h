// SPDX-License-Identifier: Apache-2.0
//
// Decodes a call site's attributes into a struct, by one walk over the attributes for each row, once per site.
#pragma once

#include <cstdint>

#include "callout/status.h"
#include "core/attributes/attribute_rows.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Returns a struct with the values of `attrs`, and with defaults for absent attributes. Returns InvalidArgument if a
/// required attribute is missing, or if a value has another type or is not one that the attribute's row allows. The
/// text of the error names the callback and the attribute. Attributes without a row are ignored, because a later
/// version may write some (docs/abi.md). Borrowed: valid until the handler returns.
template <typename Struct>
Result<Struct> DecodeAttributes(const XLA_FFI_Attrs& attrs);

namespace attribute_rows {

// Each overload of Read serves one type of member, and leaves `out` unchanged if the attribute is absent.
Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, std::string_view* out);
Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, int64_t* out);
Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, std::span<const int64_t>* out);
Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, const XLA_FFI_Attrs** out);

/// Adds the name of the callback of `attrs` to the text of `problem`.
Status OfCallback(const XLA_FFI_Attrs& attrs, const Status& problem);
/// Adds the name of the dictionary that has the attribute to the text of `problem`.
Status InDictionary(std::string_view name, const Status& problem);

template <typename Struct>
Status ReadAll(const XLA_FFI_Attrs& attrs, Struct* out);

template <typename Value>
  requires(std::is_same_v<Value, bool> || std::is_enum_v<Value>)
Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, Value* out) {
  auto number = static_cast<int64_t>(*out);
  CALLOUT_RETURN_IF_ERROR(Read(attrs, row, &number));
  *out = static_cast<Value>(number);
  return OkStatus();
}

template <typename Struct>
Status Read(const XLA_FFI_Attrs& attrs, const AttributeDescription& row, std::optional<Struct>* out) {
  const XLA_FFI_Attrs* dictionary = nullptr;
  CALLOUT_RETURN_IF_ERROR(Read(attrs, row, &dictionary));
  if (dictionary == nullptr) return OkStatus();
  out->emplace();
  if constexpr (kHasFreeEntries<Struct>) (*out)->all_entries = dictionary;
  const Status status = ReadAll(*dictionary, &**out);
  return status.ok() ? OkStatus() : InDictionary(row.name, status);
}

template <typename Struct, typename Owner, typename Value>
Status ReadRow(const XLA_FFI_Attrs& attrs, const AttributeRow<Owner, Value>& row, Struct* out) {
  return Read(attrs, row.description, &(out->*row.member));
}

template <typename Struct>
Status ReadRow(const XLA_FFI_Attrs&, const UnboundRow&, Struct*) {
  return OkStatus();
}

template <typename Struct>
Status ReadAll(const XLA_FFI_Attrs& attrs, Struct* out) {
  Status status;
  std::apply([&](const auto&... rows) { (void)(... && (status = ReadRow(attrs, rows, out)).ok()); },
             kAttributeRows<Struct>);
  return status;
}

}  // namespace attribute_rows

template <typename Struct>
Result<Struct> DecodeAttributes(const XLA_FFI_Attrs& attrs) {
  Struct decoded;
  if (Status status = attribute_rows::ReadAll(attrs, &decoded); !status.ok()) {
    return attribute_rows::OfCallback(attrs, status);
  }
  return decoded;
}

}  // namespace callout::internal
