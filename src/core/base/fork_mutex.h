// SPDX-License-Identifier: Apache-2.0
//
// Locks for data that a forked child may use: statistics, and data that destructors touch. A thread that holds a lock
// stays in the parent, so a fork first takes all of these locks. The child then finds the locks free and their data
// consistent.
#pragma once

#include "callout/export.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

/// A mutex that forks take. It must be held for moments only, never while waiting for the GIL, running foreign code or
/// writing, because a fork waits for it. Objects that are made often should not have one, because all are in one list.
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
