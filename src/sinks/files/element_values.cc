// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/element_values.h"

#include <algorithm>
#include <array>

#include "core/base/invariant.h"
#include "core/frame/buffer.h"
#include "core/frame/dtype_row.h"
#include "core/frame/elements.h"

namespace callout::internal {

bool HasRealElements(const callout_buffer& buffer) {
  const DTypeRow& row = RowOf(static_cast<DType>(buffer.dtype));
  return row.kind == DTypeKind::kBool || row.kind == DTypeKind::kFloat || row.is_integer();
}

void ForEachValue(const callout_buffer& buffer, const std::function<void(std::span<const double>)>& visit) {
  constexpr int64_t kAtOnce = 1024;
  std::array<double, kAtOnce> values;
  const int64_t count = ElementCount(buffer);
  for (int64_t i = 0; i < count; i += kAtOnce) {
    const auto some = static_cast<size_t>(std::min(kAtOnce, count - i));
    CALLOUT_CHECK(ReadDoubles(buffer, i, some, values.data()).ok(), "an array has elements that are no numbers");
    visit({values.data(), some});
  }
}

double FirstValue(const callout_buffer& buffer) {
  double value = 0;
  CALLOUT_CHECK(ReadDoubles(buffer, 0, 1, &value).ok(), "an array has elements that are no numbers");
  return value;
}

}  // namespace callout::internal
