// SPDX-License-Identifier: Apache-2.0
//
// A call of what takes taps alone, from a program that has no taps: JAX lowers debug callbacks as calls.
#pragma once

#include <memory>
#include <mutex>

#include "callout/abi.h"
#include "core/delivery/delivery.h"

namespace callout::internal {

/// Thread-safe.
class TappedCall {
 public:
  explicit TappedCall(std::shared_ptr<Callback> callback) : callback_(std::move(callback)) {}
  ~TappedCall();
  TappedCall(const TappedCall&) = delete;
  TappedCall& operator=(const TappedCall&) = delete;

  /// Queues the operands, as a tap does. FailedPrecondition for a call with results; InvalidArgument for another number
  /// of operands than the first call had.
  Status Push(const callout_call& call);

 private:
  Status MakeSite(size_t num_leaves);

  const std::shared_ptr<Callback> callback_;
  std::once_flag made_;
  Status unmade_;                  // why there is no site
  std::unique_ptr<TapSite> site_;  // of as many leaves as the first call has operands
};

}  // namespace callout::internal
