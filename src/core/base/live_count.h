// SPDX-License-Identifier: Apache-2.0
//
// Counts of live objects by kind, for leak tests and for stats().
#pragma once

#include <atomic>
#include <cstdint>

#include "callout/export.h"

namespace callout::internal {

enum class LiveKind : int {
  kCallback,
  kSite,
  kBlock,
  kPjrtClient,
  kPjrtBuffer,
  kPjrtEvent,
  kPjrtExecutable,  ///< Loaded executables, and their descriptions.
  kHandle,          ///< Handles of the C interface.
  kHostObject,      ///< Objects behind handles of programs.
  kCudaHandle,      ///< Streams, events, memory, libraries, graphs.
  kKindCount
};

CALLOUT_EXPORT std::atomic<int64_t>& LiveCounter(LiveKind kind);

inline int64_t LiveCount(LiveKind kind) { return LiveCounter(kind).load(std::memory_order_relaxed); }

/// A member of this type counts its owner. Thread-safe.
template <LiveKind kKind>
class Counted {
 public:
  Counted() { LiveCounter(kKind).fetch_add(1, std::memory_order_relaxed); }
  ~Counted() { LiveCounter(kKind).fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};

}  // namespace callout::internal
