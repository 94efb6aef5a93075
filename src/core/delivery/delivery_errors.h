// SPDX-License-Identifier: Apache-2.0
//
// Failing taps never fail the program. Their errors are counted, the first of each callback is logged, and the next
// barrier takes the last one, the number, and the first few.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/status.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

struct DeliveryErrorReport {
  uint64_t count = 0;
  std::vector<std::string> first;  ///< At most 8, in order.
  std::string last;
  StatusCode last_code = StatusCode::kOk;
};

class DeliveryErrors {
 public:
  /// Logs the callback's first error. Thread-safe.
  void Add(const Callback& callback, int32_t device_ordinal, const Status& status);
  /// Returns what came since the last call. Thread-safe.
  DeliveryErrorReport Take();

 private:
  Mutex mutex_;
  DeliveryErrorReport report_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
