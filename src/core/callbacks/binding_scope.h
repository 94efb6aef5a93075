// SPDX-License-Identifier: Apache-2.0
//
// Bindings that hold for one compilation: runtimes instantiate call sites on the thread that compiles.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

using Bindings = std::map<std::string, std::shared_ptr<Callback>, std::less<>>;

/// Returns FailedPrecondition for a call of a callback that takes taps only. The message says what was expected.
CALLOUT_EXPORT Status CalledSink(std::string_view name);

/// Makes this thread's Registry::Find look into `bindings` first, during the scope's life. Scopes may be nested, and
/// then only the innermost counts.
class CALLOUT_EXPORT BindingScope {
 public:
  /// Makes a callback for a name that has no other callback.
  using Fallback = std::function<std::shared_ptr<Callback>(std::string_view name)>;

  /// Begins the scope. Borrowed: `bindings` outlives the scope. A null `fallback` makes an unknown name an error.
  explicit BindingScope(const Bindings& bindings, Fallback fallback = nullptr);
  ~BindingScope();
  BindingScope(const BindingScope&) = delete;
  BindingScope& operator=(const BindingScope&) = delete;

  /// Sets the device of call sites from now on, which overrides the runtime's device.
  void SetDevice(int32_t ordinal) { device_ = ordinal; }
  /// Sets whether code that the program carries may be loaded; nullopt: the process decides (embedded_library.h). With
  /// `fails_late`, refused code does not fail the compilation, but fails the program when it calls the code.
  void SetEmbeddedCode(std::optional<bool> allowed, bool fails_late) {
    embedded_code_ = allowed;
    refused_code_fails_late_ = fails_late;
  }

  /// Returns the names that programs asked for during the scope, each once, in order.
  const std::vector<std::string>& asked() const { return asked_; }

  /// Returns the device of this thread's scope; -1 if the runtime's device counts.
  static int32_t Device();
  /// Returns whether this thread's scope allows code that the program carries; nullopt if there is no scope, or the
  /// scope leaves it to the process.
  static std::optional<bool> EmbeddedCode();
  /// Returns true if code that this thread's scope refuses fails at its call instead of at the compilation.
  static bool RefusedCodeFailsLate();
  /// Returns the callback that this thread's scope binds to `name`; null if there is none.
  static std::shared_ptr<Callback> Find(std::string_view name);
  /// Returns the callback that the fallback of this thread's scope makes for `name`; null if there is none.
  static std::shared_ptr<Callback> MakeFallback(std::string_view name);
  /// Returns true if this thread's scope binds `name`.
  static bool Has(std::string_view name);

 private:
  const Bindings& bindings_;
  const Fallback fallback_;
  BindingScope* const outer_;
  int32_t device_ = -1;
  std::optional<bool> embedded_code_;
  bool refused_code_fails_late_ = false;
  std::vector<std::string> asked_;
};

}  // namespace callout::internal
