// SPDX-License-Identifier: Apache-2.0
//
// Replaces src/core/profile/recorder.h: a model records nothing.
#pragma once

#include <cstdint>

#include "core/profile/event.h"

namespace callout::internal {

inline void ProfileThreadDelivers() {}

struct ProfileSpan {
  bool on() const { return false; }
  uint32_t session() const { return 0; }
  void End(const ProfileEvent& /*event*/) const {}
};

}  // namespace callout::internal
