// SPDX-License-Identifier: Apache-2.0
//
// A file descriptor, closed with its owner.
#pragma once

#include <unistd.h>

namespace callout::internal {

class Descriptor {
 public:
  /// Takes ownership. Negative: none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void Close() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

}  // namespace callout::internal
