// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink.h"

namespace callout::internal {

Status Sink::Call(const callout_call& /*call*/) {
  return FailedPrecondition("a sink takes taps; it cannot be called for a result");
}

}  // namespace callout::internal
