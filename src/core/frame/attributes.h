// SPDX-License-Identifier: Apache-2.0
//
// The constants that a program passes to a function by name: XLA's dictionary attribute as the C view.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Owns what it was decoded from; the C view points into it.
class Attributes {
 public:
  Attributes() = default;
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  /// Stays empty for null. InvalidArgument for a nested dictionary. Call once.
  Status Decode(const XLA_FFI_Attrs* dictionary);

  /// Sorted by name. Borrowed: valid as long as this object.
  std::span<const callout_attribute> view() const { return view_; }

 private:
  const char* Keep(const void* data, size_t size);

  std::deque<std::string> kept_;  // NUL-terminated, 16-byte aligned where it matters: strings on the heap are
  std::vector<callout_attribute> view_;
};

}  // namespace callout::internal
