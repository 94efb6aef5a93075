// SPDX-License-Identifier: Apache-2.0
#include "files/element_values.h"

#include <algorithm>
#include <array>

#include "callout/dtype.h"
#include "frame/buffer.h"
#include "frame/element_doubles.h"

namespace callout::internal {

bool HasRealElements(const callout_buffer& buffer) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  return dtype != DType::kComplex64 && dtype != DType::kComplex128 && BitWidth(dtype) > 0;
}

void ForEachValue(const callout_buffer& buffer, const std::function<void(std::span<const double>)>& visit) {
  constexpr int64_t kAtOnce = 1024;
  std::array<double, kAtOnce> values;
  const int64_t count = ElementCount(buffer);
  for (int64_t i = 0; i < count; i += kAtOnce) {
    const auto some = static_cast<size_t>(std::min(kAtOnce, count - i));
    ReadDoubles(buffer, i, some, values.data());
    visit({values.data(), some});
  }
}

double FirstValue(const callout_buffer& buffer) {
  double value = 0;
  ReadDoubles(buffer, 0, 1, &value);
  return value;
}

}  // namespace callout::internal
