// SPDX-License-Identifier: Apache-2.0
//
// Locks of what may be used in a forked child: statistics, and what destructors touch. The threads that hold locks stay
// in the parent, so a fork takes all of these first; the child finds what they guard whole, and them free.
#pragma once

#include "callout/export.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

/// To be held for moments only, never by who waits for the GIL, runs foreign code, or writes: a fork waits for it. Not
/// for what is made often: there is a list of all.
class CALLOUT_EXPORT ForkMutex final : public Mutex {
 public:
  ForkMutex();
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

 private:
  friend struct ForkLocks;
};

}  // namespace callout::internal
