// SPDX-License-Identifier: Apache-2.0
//
// What libFuzzer calls, and what every target is built of. A target must come back from any bytes: what it checks
// beyond that aborts, by CALLOUT_CHECK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/invariant.h"

namespace callout::fuzz {

/// What the target does with one input. Defined by each target.
void Try(std::string_view bytes);

}  // namespace callout::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  callout::fuzz::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
