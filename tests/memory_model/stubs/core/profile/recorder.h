// SPDX-License-Identifier: Apache-2.0
//
// In the place of src/core/profile/recorder.h: nothing is recorded in a model.
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
