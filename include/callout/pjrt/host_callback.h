// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of the host that a compiled program calls, and how they are made.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "callout/abi.h"
#include "callout/call.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {
class Callback;
}

namespace callout::pjrt {

/// A callback that is ready to be called, under the name by which programs ask for it. A handle: copies are the same
/// callback, which lives as long as one of them, or an executable that was compiled with it. Thread-safe.
class CALLOUT_EXPORT LoadedHostCallback {
 public:
  LoadedHostCallback(std::string name, std::shared_ptr<internal::Callback> callback)
      : name_(std::move(name)), callback_(std::move(callback)) {}

  const std::string& name() const { return name_; }
  /// For this library's own classes.
  const std::shared_ptr<internal::Callback>& callback() const { return callback_; }

 private:
  std::string name_;
  std::shared_ptr<internal::Callback> callback_;
};

/// What a callback is made of. The set is open: a host may have kinds of its own, which make what the kinds here make.
class CALLOUT_EXPORT LoadedHostCallbackMakeArgs {
 public:
  virtual ~LoadedHostCallbackMakeArgs();
  virtual Result<LoadedHostCallback> Make() const = 0;
};

/// A C++ function. For a program's call it fills the results; for a tap it only looks at the arguments, on the thread
/// that delivers. Programs call it on their own threads, several at once; what it throws becomes its error.
struct CALLOUT_EXPORT FunctionCallback final : LoadedHostCallbackMakeArgs {
  FunctionCallback(std::string callback_name, std::function<Status(const Call&)> callback_function)
      : name(std::move(callback_name)), function(std::move(callback_function)) {}
  Result<LoadedHostCallback> Make() const override;

  std::string name;
  std::function<Status(const Call&)> function;
};

/// A function of a shared library: "path/lib.so:symbol", see callout/call.h and callout/kernel.h.
struct CALLOUT_EXPORT LibraryCallback final : LoadedHostCallbackMakeArgs {
  LibraryCallback(std::string callback_name, std::string library_and_symbol)
      : name(std::move(callback_name)), spec(std::move(library_and_symbol)) {}
  Result<LoadedHostCallback> Make() const override;

  std::string name;
  std::string spec;
};

/// A receiver of taps: a line each on a file descriptor, a JSON object each in a file, or nothing.
struct CALLOUT_EXPORT SinkCallback final : LoadedHostCallbackMakeArgs {
  enum class Kind { kNull, kPrint, kJsonLines };

  SinkCallback(std::string callback_name, Kind sink_kind, std::string file_path = {})
      : name(std::move(callback_name)), kind(sink_kind), path(std::move(file_path)) {}
  Result<LoadedHostCallback> Make() const override;

  std::string name;
  Kind kind;
  std::string path;  ///< Of kJsonLines.
};

/// A callout_closure: a callback of C, or of another language. Takes ownership of its context, which is destroyed with
/// the last of this object, the callbacks that it makes and the executables that use them. Of what is no closure
/// nothing is taken, and Make says why.
struct CALLOUT_EXPORT ClosureCallback final : LoadedHostCallbackMakeArgs {
  ClosureCallback(std::string callback_name, const callout_closure& closure);
  Result<LoadedHostCallback> Make() const override;

  std::string name;
  Result<std::shared_ptr<internal::Callback>> callback;
};

/// Blocks until every tap that programs made before the call is delivered. Returns the error of the last tap that
/// failed since the last call, or DeadlineExceeded with what is outstanding. Not from a callback. Thread-safe.
CALLOUT_EXPORT Status BarrierWait(double timeout_seconds = -1);

}  // namespace callout::pjrt
