// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/excerpt.h"

#include <algorithm>

namespace callout::internal {

Excerpt::Excerpt(const callout_buffer& whole) : shown_(whole) {
  for (uint32_t axis = 0; axis < whole.rank; ++axis) {
    is_cut_.push_back(whole.dims[axis] > 2 * kEdge);
    dims_.push_back(std::min(whole.dims[axis], 2 * kEdge));
  }
  Copy(whole, 0, static_cast<const char*>(whole.data), whole.size_bytes);
  shown_.dims = dims_.data();
  shown_.data = bytes_.data();
  shown_.size_bytes = bytes_.size();
}

// `bytes`: of the sub-array at `from`, which has the axes from `axis` on.
void Excerpt::Copy(const callout_buffer& whole, uint32_t axis, const char* from, uint64_t bytes) {
  if (axis == whole.rank) {
    bytes_.insert(bytes_.end(), from, from + bytes);
    return;
  }
  const uint64_t stride = bytes / static_cast<uint64_t>(whole.dims[axis]);
  for (int64_t i = 0; i < whole.dims[axis]; ++i) {
    if (is_cut_[axis] && i == kEdge) i = whole.dims[axis] - kEdge;
    Copy(whole, axis + 1, from + static_cast<uint64_t>(i) * stride, stride);
  }
}

}  // namespace callout::internal
