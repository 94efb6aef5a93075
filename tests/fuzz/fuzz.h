// SPDX-License-Identifier: Apache-2.0
//
// The function that libFuzzer calls, and the declaration that every target defines. A target must return for any bytes;
// its further checks abort, by CALLOUT_CHECK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/invariant.h"

namespace callout::fuzz {

/// Runs the target on one input. Defined by each target.
void Try(std::string_view bytes);

}  // namespace callout::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  callout::fuzz::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
