// SPDX-License-Identifier: Apache-2.0
//
// Native callbacks: a function pointer of one of the two kinds in callout/abi.h.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/base/dynamic_library.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

struct NativeOptions {
  /// Dropped with the callback, on any thread.
  std::shared_ptr<void> owner;
  /// Calls of all such functions of the process wait for each other.
  bool one_at_a_time = false;
};

/// Calls a callout_function in place; whatever it throws becomes a Status. As a tap it gets its records on the native
/// worker.
class NativeFunction final : public Callback {
 public:
  /// `function` is copied; the code that it points to must stay loaded as long as `options.owner`, or for ever.
  NativeFunction(std::string label, const callout_function& function, NativeOptions options = {});

  Worker worker() const override { return Worker::kNative; }
  bool takes_device_memory() const override { return true; }
  Status Call(const callout_call& call) override;
  Status Deliver(const Record& record) override;
  std::span<const callout_parameter> parameters() const override {
    return {function_.parameters, function_.num_parameters};
  }

 private:
  const callout_function function_;
  const NativeOptions options_;
};

/// InvalidArgument if the record is of another ABI version or of an unknown kind. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeNativeFunction(std::string label, const callout_function& function,
                                                                    NativeOptions options = {});

/// The function `symbol` of a loaded library: the record that CALLOUT_DEFINE_CALLBACK(symbol, ...) exports, or else the
/// function `symbol` itself, taken for a callout_pointers_fn. Thread-safe.
Result<std::shared_ptr<Callback>> FindNativeFunction(std::string label, const DynamicLibrary& library,
                                                     const std::string& symbol);

/// "path/lib.so:symbol", as above. Thread-safe. The library stays loaded.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> LoadNativeFunction(std::string label, const std::string& spec);

}  // namespace callout::internal
