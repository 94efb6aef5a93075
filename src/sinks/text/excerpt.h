// SPDX-License-Identifier: Apache-2.0
//
// What NumPy shows of an array above its threshold: of long axes the first and the last few.
#pragma once

#include <cstdint>
#include <vector>

#include "callout/abi.h"

namespace callout::internal {

class Excerpt {
 public:
  static constexpr int64_t kEdge = 3;  ///< So many elements of a cut axis at each of its ends.

  /// Copies what is shown of `whole`, whose elements are whole bytes.
  explicit Excerpt(const callout_buffer& whole);
  Excerpt(const Excerpt&) = delete;
  Excerpt& operator=(const Excerpt&) = delete;

  /// The elements that are shown. Borrowed: valid as long as this object.
  const callout_buffer& shown() const { return shown_; }
  /// For each axis, whether elements are left out after the first kEdge. Borrowed, as above.
  const std::vector<bool>& is_cut() const { return is_cut_; }

 private:
  void Copy(const callout_buffer& whole, uint32_t axis, const char* from, uint64_t bytes);

  callout_buffer shown_;
  std::vector<int64_t> dims_;
  std::vector<bool> is_cut_;
  std::vector<char> bytes_;
};

}  // namespace callout::internal
