// SPDX-License-Identifier: Apache-2.0
//
// The handle by which a program knows an object of the host.
#pragma once

#include <cstdint>

namespace callout::internal {

/// The handle of an object, in programs as u32[4]. HandleTable finds the object.
struct Handle {
  uint32_t index = 0;
  uint32_t generation = 0;  // of the slot at `index`, from 1
  uint64_t process = 0;     // a random number of the process that made the object

  /// Reads a handle from four numbers in a program's memory. Thread-safe.
  static Handle Of(const void* words) {
    Handle handle;
    __builtin_memcpy(static_cast<void*>(&handle), words, sizeof(Handle));
    return handle;
  }

  friend bool operator==(const Handle&, const Handle&) = default;
};
static_assert(sizeof(Handle) == 4 * sizeof(uint32_t));

}  // namespace callout::internal
