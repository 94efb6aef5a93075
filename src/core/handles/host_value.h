// SPDX-License-Identifier: Apache-2.0
//
// Arrays that the host changes while programs read them.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "callout/status.h"
#include "core/base/thread_annotations.h"
#include "core/handles/host_object.h"

namespace callout::internal {

class CALLOUT_EXPORT HostValue final : public HostObject {
 public:
  explicit HostValue(std::vector<HostArray> first) : now_(Share(std::move(first))), arrays_(now_.get()) {}

  HandleKind kind() const override { return HandleKind::kHostValue; }
  Answer Read() const override {
    const MutexLock lock(mutex_);
    return now_;
  }
  Status ReadInto(const Wanted& wanted) const override;

  /// Replaces the arrays: a reader gets either all old arrays or all of `next`. InvalidArgument for another number of
  /// arrays, another type or another shape than the first ones had.
  Status Set(std::vector<HostArray> next);

 private:
  static Answer Share(std::vector<HostArray> arrays) {
    return std::make_shared<const std::vector<HostArray>>(std::move(arrays));
  }

  mutable Mutex mutex_;  // held only while a pointer is copied
  Answer now_ CALLOUT_GUARDED_BY(mutex_);
  std::atomic<const std::vector<HostArray>*> arrays_;  // points into `now_`, for readers with a Hazard
};

}  // namespace callout::internal
