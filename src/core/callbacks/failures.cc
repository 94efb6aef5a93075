// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/failures.h"

#include <array>
#include <limits>
#include <random>

#include "core/base/thread_annotations.h"

namespace callout::internal {
namespace {

// The start is not 1: several processes may run one program, and none must take another's number for its own.
int32_t RandomStart() {
  std::random_device random;
  return static_cast<int32_t>(random() % (std::numeric_limits<int32_t>::max() - 1)) + 1;
}

struct Kept {
  int32_t number = 0;
  Status failure;
};

class Failures {
 public:
  int32_t Keep(const Status& failure) {
    MutexLock lock(mutex_);
    last_ = last_ == std::numeric_limits<int32_t>::max() ? 1 : last_ + 1;
    kept_[Slot(last_)] = {last_, failure};
    return last_;
  }

  std::optional<Status> Find(int32_t number) const {
    MutexLock lock(mutex_);
    const Kept& kept = kept_[Slot(number)];
    if (kept.number != number) return std::nullopt;
    return kept.failure;
  }

 private:
  static size_t Slot(int32_t number) { return static_cast<uint32_t>(number) % 256; }

  mutable Mutex mutex_;
  int32_t last_ CALLOUT_GUARDED_BY(mutex_) = RandomStart();
  std::array<Kept, 256> kept_ CALLOUT_GUARDED_BY(mutex_);
};

Failures& GetFailures() {
  static Failures* const failures = new Failures;  // leaked: programs may run during static destruction
  return *failures;
}

}  // namespace

int32_t KeepFailure(const Status& failure) { return GetFailures().Keep(failure); }
std::optional<Status> FindFailure(int32_t number) { return GetFailures().Find(number); }

}  // namespace callout::internal
