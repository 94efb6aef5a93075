// SPDX-License-Identifier: Apache-2.0
//
// Native callbacks: a function pointer of one of the two kinds in callout/abi.h.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "registry/callback.h"

namespace callout::internal {

/// Calls a callout_function in place; whatever it throws becomes a Status. As a tap it gets its records on the native
/// lane.
class NativeFunction final : public Callback {
 public:
  /// `function` is copied; the code that it points to must stay loaded.
  NativeFunction(std::string label, const callout_function& function);

  Lane lane() const override { return Lane::kNative; }
  Status Call(const callout_call& call) override;
  Status Deliver(const Record& record) override;
  std::span<const callout_parameter> parameters() const override {
    return {function_.parameters, function_.num_parameters};
  }

 private:
  const callout_function function_;
};

/// InvalidArgument if the record is of another ABI version or of an unknown kind. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeNativeFunction(std::string label,
                                                                    const callout_function& function);

/// "path/lib.so:symbol": the record that CALLOUT_DEFINE_CALLBACK(symbol, ...) exports, or else the function `symbol`
/// itself, taken for a callout_pointers_fn. Thread-safe. The library stays loaded.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> LoadNativeFunction(std::string label, const std::string& spec);

}  // namespace callout::internal
