// SPDX-License-Identifier: Apache-2.0
#include "host/pjrt/dtypes.h"

#include <string>
#include <utility>

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
  return Unimplemented("callout: element type " + std::to_string(type) + " of PJRT");
}

}  // namespace callout::internal
