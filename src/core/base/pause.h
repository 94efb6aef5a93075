// SPDX-License-Identifier: Apache-2.0
//
// A pause for loops that wait for another processor without giving up this one.
#pragma once

namespace callout::internal {

/// Tells the processor that it is in a spin loop. Takes some tens of nanoseconds at most.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace callout::internal
