// SPDX-License-Identifier: Apache-2.0
//
// Converts attributes that Python encoded (callout/_targets/target_attributes.py) to the struct that handlers decode
// from programs. List attributes are left out: taps outside of programs have none.
#pragma once

#include "module_bindings.h"

#include <nanobind/stl/string_view.h>

#include <cstdint>

#include "core/attributes/attribute_rows.h"

namespace callout::python {

template <typename Struct, typename Owner, typename Value>
void SetAttribute(const nanobind::dict& encoded, const internal::AttributeRow<Owner, Value>& row, Struct* out) {
  const nanobind::object value = encoded.get(nanobind::cast(row.description.name), nanobind::none());
  if (value.is_none()) return;
  if constexpr (std::is_same_v<Value, std::string_view>) {
    out->*row.member = nanobind::cast<std::string_view>(value);
  } else if constexpr (std::is_same_v<Value, std::span<const int64_t>>) {
    throw nanobind::type_error("lists belong to calls in programs");
  } else {
    static_assert(std::is_integral_v<Value> || std::is_enum_v<Value>);
    out->*row.member = static_cast<Value>(nanobind::cast<int64_t>(nanobind::int_(value)));
  }
}

template <typename Struct>
void SetAttribute(const nanobind::dict&, const internal::UnboundRow&, Struct*) {}

/// Returns the struct with the strings and numbers of `encoded`. Borrowed: texts are valid as long as `encoded`.
/// **Requires GIL.**
template <typename Struct>
Struct AttributesFrom(const nanobind::dict& encoded) {
  Struct attributes;
  std::apply([&](const auto&... rows) { (SetAttribute(encoded, rows, &attributes), ...); },
             internal::kAttributeRows<Struct>);
  return attributes;
}

}  // namespace callout::python
