// SPDX-License-Identifier: Apache-2.0
#include "ffi/targets.h"

#include "ffi/handlers.h"

namespace callout::internal {

std::span<const Target> Targets() {
  static const Target targets[] = {
      // On a CPU a buffer callback and a call get the same memory.
      {"callout.v1.buffer", "cpu", reinterpret_cast<void*>(&callout_v1_call_instantiate),
       reinterpret_cast<void*>(&callout_v1_call_execute)},
      {"callout.v1.call", "cpu", reinterpret_cast<void*>(&callout_v1_call_instantiate),
       reinterpret_cast<void*>(&callout_v1_call_execute)},
      {"callout.v1.check", "cpu", nullptr, reinterpret_cast<void*>(&callout_v1_check_execute)},
      {"callout.v1.tap", "cpu", reinterpret_cast<void*>(&callout_v1_tap_instantiate),
       reinterpret_cast<void*>(&callout_v1_tap_execute)},
  };
  return targets;
}

}  // namespace callout::internal
