// SPDX-License-Identifier: Apache-2.0
#include "host/programs/mlir_type.h"

#include <charconv>

#include "core/frame/dtype_row.h"

namespace callout::internal {
std::optional<pjrt::ArrayType> FromMlirType(std::string_view text) {
  constexpr std::string_view kHead = "tensor<";
  if (!text.starts_with(kHead) || !text.ends_with('>')) return std::nullopt;
  text = text.substr(kHead.size(), text.size() - kHead.size() - 1);
  pjrt::ArrayType type{DType::kInvalid, {}};
  while (!text.empty() && (text.front() == '?' || (text.front() >= '0' && text.front() <= '9'))) {
    if (text.starts_with("?x")) {
      type.dims.push_back(pjrt::ArrayType::kOpen);
      text.remove_prefix(2);
      continue;
    }
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || end == text.data() + text.size() || *end != 'x') return std::nullopt;
    type.dims.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  }
  for (const DTypeRow& row : kDTypeRows) {
    if (row.mlir_name.empty() || row.mlir_name != text) continue;
    type.dtype = row.dtype;
    return type;
  }
  return std::nullopt;
}

}  // namespace callout::internal
