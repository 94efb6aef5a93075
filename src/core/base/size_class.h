// SPDX-License-Identifier: Apache-2.0
//
// The sizes that memory is kept in for reuse: four a power of two, so at most a quarter of a block is not used.
#pragma once

#include <bit>
#include <cstddef>

namespace callout::internal {

/// The smallest class whose blocks have room for `bytes`. Class 0 has blocks of 2^min_shift bytes.
constexpr size_t SizeClassFor(size_t bytes, size_t min_shift) {
  if (bytes <= (size_t{1} << min_shift)) return 0;
  const size_t shift = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;  // 2^shift < bytes <= 2^(shift+1)
  const size_t base = size_t{1} << shift;
  const size_t quarter = (bytes - base + base / 4 - 1) / (base / 4);
  return (shift - min_shift) * 4 + quarter;
}

/// How large the blocks of a class are.
constexpr size_t SizeClassBytes(size_t size_class, size_t min_shift) {
  const size_t base = size_t{1} << (min_shift + size_class / 4);
  return base + (size_class % 4) * (base / 4);
}

}  // namespace callout::internal
