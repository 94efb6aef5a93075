// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/delivery_errors.h"

#include <utility>

#include "core/base/log.h"
#include "core/callbacks/invoke.h"

namespace callout::internal {
namespace {

constexpr size_t kMaxFirst = 8;

}  // namespace

void DeliveryErrors::Add(const Callback& callback, int32_t device_ordinal, const Status& status) {
  const std::string text = DescribeFailure(callback, device_ordinal, status);
  if (!callback.stats().tap_error_logged.exchange(true, std::memory_order_relaxed)) {
    Log(LogLevel::kError,
        text + "\nFurther errors of this callback are counted, not logged; barrier_wait() raises them.",
        callback.log_source());
  }
  MutexLock lock(mutex_);
  ++report_.count;
  if (report_.first.size() < kMaxFirst) report_.first.push_back(text);
  report_.last = text;
  report_.last_code = status.code();
}

DeliveryErrorReport DeliveryErrors::Take() {
  MutexLock lock(mutex_);
  return std::exchange(report_, {});
}

}  // namespace callout::internal
