// SPDX-License-Identifier: Apache-2.0
//
// The work of every measured function: a copy. The first element counts the calls of a loop, so that the result of the
// loop can be checked.
#pragma once

#include <cstdint>
#include <cstring>

#include "callout/call.h"

namespace callout::bench {

inline void CopyPlusOne(const float* from, float* to, int64_t elements) {
  std::memcpy(to, from, static_cast<size_t>(elements) * sizeof(float));
  to[0] = from[0] + 1;
}

inline void CopyCall(const Call& call) {
  const auto from = call.arg<float>(0);
  CopyPlusOne(from.data(), call.result<float>(0).data(), from.size());
}

}  // namespace callout::bench
