// SPDX-License-Identifier: Apache-2.0
//
// Signals, such as Ctrl-C, that set a flag instead of their previous action. A signal whose flags are all set takes its
// previous action, so a second Ctrl-C interrupts as usual.
#pragma once

#include <memory>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/handles/stop_flag.h"

namespace callout::internal {

/// Makes each of the signals set the flag, if it is not set yet, during the life of this object. Scopes nest: a signal
/// sets the innermost flag that is not set. The end of the last scope restores the signal's previous action, unless
/// another handler was installed since. A forked child takes the previous action.
class CALLOUT_EXPORT SignalScope {
 public:
  /// Begins a scope. InvalidArgument for a signal that cannot be caught; ResourceExhausted for more than 16 scopes of
  /// one signal. Thread-safe.
  static Result<std::unique_ptr<SignalScope>> Make(const std::vector<int>& signals, std::shared_ptr<StopFlag> flag);
  /// Ends the scope. Blocks until no handler uses the flag. Thread-safe.
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

 private:
  explicit SignalScope(std::shared_ptr<StopFlag> flag) : flag_(std::move(flag)) {}

  const std::shared_ptr<StopFlag> flag_;
  std::vector<int> caught_;
};

}  // namespace callout::internal
