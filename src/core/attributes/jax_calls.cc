// SPDX-License-Identifier: Apache-2.0
#include "core/attributes/jax_calls.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/base/cat.h"

namespace callout::internal {

bool IsJaxTarget(std::string_view name) {
  return std::ranges::any_of(kJaxTargets, [name](const JaxTarget& target) { return target.name == name; });
}

std::optional<std::string> JaxName(const XLA_FFI_Attrs& attrs) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != kJaxIndexAttribute) continue;
    if (attrs.types[i] != XLA_FFI_AttrType_SCALAR) return std::nullopt;
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attrs.attrs[i]);
    if (scalar->dtype != XLA_FFI_DataType_U64 && scalar->dtype != XLA_FFI_DataType_S64) return std::nullopt;
    uint64_t index = 0;
    std::memcpy(&index, scalar->value, sizeof(index));
    return Cat(kJaxNamePrefix, index);
  }
  return std::nullopt;
}

}  // namespace callout::internal
