// SPDX-License-Identifier: Apache-2.0
#include "pjrt/dtypes.h"

#include <array>
#include <string>
#include <utility>

namespace callout::internal {
namespace {

constexpr auto kTypes = std::to_array<std::pair<DType, PJRT_Buffer_Type>>({
    {DType::kBool, PJRT_Buffer_Type_PRED},
    {DType::kInt2, PJRT_Buffer_Type_S2},
    {DType::kInt4, PJRT_Buffer_Type_S4},
    {DType::kInt8, PJRT_Buffer_Type_S8},
    {DType::kInt16, PJRT_Buffer_Type_S16},
    {DType::kInt32, PJRT_Buffer_Type_S32},
    {DType::kInt64, PJRT_Buffer_Type_S64},
    {DType::kUint2, PJRT_Buffer_Type_U2},
    {DType::kUint4, PJRT_Buffer_Type_U4},
    {DType::kUint8, PJRT_Buffer_Type_U8},
    {DType::kUint16, PJRT_Buffer_Type_U16},
    {DType::kUint32, PJRT_Buffer_Type_U32},
    {DType::kUint64, PJRT_Buffer_Type_U64},
    {DType::kFloat16, PJRT_Buffer_Type_F16},
    {DType::kBfloat16, PJRT_Buffer_Type_BF16},
    {DType::kFloat32, PJRT_Buffer_Type_F32},
    {DType::kFloat64, PJRT_Buffer_Type_F64},
    {DType::kComplex64, PJRT_Buffer_Type_C64},
    {DType::kComplex128, PJRT_Buffer_Type_C128},
    {DType::kToken, PJRT_Buffer_Type_TOKEN},
    {DType::kFloat8E5M2, PJRT_Buffer_Type_F8E5M2},
    {DType::kFloat8E3M4, PJRT_Buffer_Type_F8E3M4},
    {DType::kFloat8E4M3, PJRT_Buffer_Type_F8E4M3},
    {DType::kFloat8E4M3Fn, PJRT_Buffer_Type_F8E4M3FN},
    {DType::kFloat8E4M3B11Fnuz, PJRT_Buffer_Type_F8E4M3B11FNUZ},
    {DType::kFloat8E5M2Fnuz, PJRT_Buffer_Type_F8E5M2FNUZ},
    {DType::kFloat8E4M3Fnuz, PJRT_Buffer_Type_F8E4M3FNUZ},
    {DType::kFloat8E8M0Fnu, PJRT_Buffer_Type_F8E8M0FNU},
    {DType::kFloat4E2M1Fn, PJRT_Buffer_Type_F4E2M1FN},
});

}  // namespace

Result<PJRT_Buffer_Type> ToPjrtType(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  return InvalidArgument("callout: PJRT has no element type " + std::string(ShortName(dtype)));
}

Result<DType> FromPjrtType(int type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return Unimplemented("callout: element type " + std::to_string(type) + " of PJRT");
}

}  // namespace callout::internal
