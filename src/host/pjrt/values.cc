// SPDX-License-Identifier: Apache-2.0
#include "host/pjrt/values.h"

#include <string>
#include <type_traits>
#include <utility>

#include "core/base/cat.h"

namespace callout::internal {
namespace {

constexpr std::pair<DType, PJRT_Buffer_Type> kTypes[] = {
#define CALLOUT_ROW(name, number, xla, pjrt, ...) {DType::name, PJRT_Buffer_Type_##pjrt},
    CALLOUT_DTYPE_ROWS(CALLOUT_ROW)
#undef CALLOUT_ROW
};

}  // namespace

Result<PJRT_Buffer_Type> ToPjrtType(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype && theirs != PJRT_Buffer_Type_INVALID) return theirs;
  }
  return InvalidArgument("callout: PJRT has no element type " + std::string(ShortName(dtype)));
}

Result<DType> FromPjrtType(int type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type && theirs != PJRT_Buffer_Type_INVALID) return ours;
  }
  return Unimplemented(Cat("callout: element type ", type, " of PJRT"));
}

pjrt::Value FromNamedValue(const PJRT_NamedValue& value) {
  switch (EnumNumber(value.type)) {
    case PJRT_NamedValue_kString:
      return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64List:
      return std::vector<int64_t>(value.int64_array_value, value.int64_array_value + value.value_size);
    case PJRT_NamedValue_kFloat:
      return value.float_value;
    case PJRT_NamedValue_kBool:
      return value.bool_value;
    default:
      return value.int64_value;
  }
}

pjrt::Values FromNamedValues(const PJRT_NamedValue* values, size_t count) {
  pjrt::Values out;
  for (size_t i = 0; i < count; ++i) out[std::string(values[i].name, values[i].name_size)] = FromNamedValue(values[i]);
  return out;
}

PJRT_NamedValue ToNamedValue(const std::string& name, const pjrt::Value& value) {
  PJRT_NamedValue out = {};
  out.struct_size = sizeof(out);  // the exact size, because arrays of this struct have no room for later fields
  out.name = name.data();
  out.name_size = name.size();
  out.value_size = 1;
  std::visit(
      [&out](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string>) {
          out.type = PJRT_NamedValue_kString;
          out.string_value = held.data();
          out.value_size = held.size();
        } else if constexpr (std::is_same_v<T, int64_t>) {
          out.type = PJRT_NamedValue_kInt64;
          out.int64_value = held;
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          out.type = PJRT_NamedValue_kInt64List;
          out.int64_array_value = held.data();
          out.value_size = held.size();
        } else if constexpr (std::is_same_v<T, float>) {
          out.type = PJRT_NamedValue_kFloat;
          out.float_value = held;
        } else {
          out.type = PJRT_NamedValue_kBool;
          out.bool_value = held;
        }
      },
      value);
  return out;
}

}  // namespace callout::internal
