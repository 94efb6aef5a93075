// SPDX-License-Identifier: Apache-2.0
//
// Which bytes of a ring are taken. They are given back in the order in which they were taken.
#pragma once

#include <algorithm>
#include <cstdint>

namespace callout::internal {

/// For one thread at a time.
class RingSpace {
 public:
  explicit RingSpace(uint64_t bytes) : bytes_(bytes) {}

  /// True if `bytes` are free next to each other. All of the ring is, when nothing is taken.
  bool Has(uint64_t bytes) const { return used() + Skipped(bytes) + bytes <= bytes_; }
  /// Where they begin. Has(bytes) is true.
  uint64_t Take(uint64_t bytes) {
    taken_ += Skipped(bytes) + bytes;
    return (taken_ - bytes) % bytes_;
  }

  /// The end of what was taken last, for Release.
  uint64_t end() const { return taken_; }
  /// Gives back everything before `end`.
  void Release(uint64_t end) {
    released_ = std::max(released_, end);
    if (used() == 0) taken_ = released_ = (taken_ + bytes_ - 1) / bytes_ * bytes_;  // from the beginning again
  }

  uint64_t used() const { return taken_ - released_; }
  uint64_t bytes() const { return bytes_; }

 private:
  // What is too short at the ring's end stays empty.
  uint64_t Skipped(uint64_t bytes) const {
    const uint64_t at = taken_ % bytes_;
    return at + bytes <= bytes_ ? 0 : bytes_ - at;
  }

  const uint64_t bytes_;
  uint64_t taken_ = 0;  // both only grow
  uint64_t released_ = 0;
};

}  // namespace callout::internal
