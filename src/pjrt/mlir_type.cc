// SPDX-License-Identifier: Apache-2.0
#include "pjrt/mlir_type.h"

#include <array>
#include <charconv>
#include <utility>

namespace callout::internal {
namespace {

// In StableHLO integers without a sign are signed ones.
constexpr auto kElements = std::to_array<std::pair<std::string_view, DType>>({
    {"i1", DType::kBool},
    {"i2", DType::kInt2},
    {"i4", DType::kInt4},
    {"i8", DType::kInt8},
    {"i16", DType::kInt16},
    {"i32", DType::kInt32},
    {"i64", DType::kInt64},
    {"ui2", DType::kUint2},
    {"ui4", DType::kUint4},
    {"ui8", DType::kUint8},
    {"ui16", DType::kUint16},
    {"ui32", DType::kUint32},
    {"ui64", DType::kUint64},
    {"f16", DType::kFloat16},
    {"bf16", DType::kBfloat16},
    {"f32", DType::kFloat32},
    {"f64", DType::kFloat64},
    {"complex<f32>", DType::kComplex64},
    {"complex<f64>", DType::kComplex128},
    {"f4E2M1FN", DType::kFloat4E2M1Fn},
    {"f8E3M4", DType::kFloat8E3M4},
    {"f8E4M3", DType::kFloat8E4M3},
    {"f8E4M3FN", DType::kFloat8E4M3Fn},
    {"f8E4M3FNUZ", DType::kFloat8E4M3Fnuz},
    {"f8E4M3B11FNUZ", DType::kFloat8E4M3B11Fnuz},
    {"f8E5M2", DType::kFloat8E5M2},
    {"f8E5M2FNUZ", DType::kFloat8E5M2Fnuz},
    {"f8E8M0FNU", DType::kFloat8E8M0Fnu},
});

}  // namespace

std::optional<pjrt::ArrayType> FromMlirType(std::string_view text) {
  constexpr std::string_view kHead = "tensor<";
  if (!text.starts_with(kHead) || !text.ends_with('>')) return std::nullopt;
  text = text.substr(kHead.size(), text.size() - kHead.size() - 1);
  pjrt::ArrayType type{DType::kInvalid, {}};
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || end == text.data() + text.size() || *end != 'x') return std::nullopt;
    type.dims.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  }
  for (const auto& [name, dtype] : kElements) {
    if (name != text) continue;
    type.dtype = dtype;
    return type;
  }
  return std::nullopt;
}

}  // namespace callout::internal
