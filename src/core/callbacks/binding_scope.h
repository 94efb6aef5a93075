// SPDX-License-Identifier: Apache-2.0
//
// Names that hold for one compilation: runtimes instantiate call sites on the thread that compiles.
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

/// FailedPrecondition for a call of what takes taps only, with what was expected.
CALLOUT_EXPORT Status CalledSink(std::string_view name);

/// While it lives, this thread's Registry::Find looks into `bindings` first. May be nested: the innermost counts.
class CALLOUT_EXPORT BindingScope {
 public:
  /// Makes a callback for a name that nothing else has.
  using Fallback = std::function<std::shared_ptr<Callback>(std::string_view name)>;

  /// `bindings` outlives the scope. `fallback` may be null: then such a name is an error.
  explicit BindingScope(const Bindings& bindings, Fallback fallback = nullptr);
  ~BindingScope();
  BindingScope(const BindingScope&) = delete;
  BindingScope& operator=(const BindingScope&) = delete;

  /// What call sites take for their device from now on, whatever the runtime tells them.
  void SetDevice(int32_t ordinal) { device_ = ordinal; }
  /// Whether code that the program carries may be loaded; nullopt: as the process says (embedded_library.h). With
  /// `fails_late` what is refused does not fail the compilation, but the program where it calls the code.
  void SetEmbeddedCode(std::optional<bool> allowed, bool fails_late) {
    embedded_code_ = allowed;
    refused_code_fails_late_ = fails_late;
  }

  /// Names that were asked for meanwhile, each once, in order.
  const std::vector<std::string>& asked() const { return asked_; }

  /// The device of this thread's scope; -1 if there is none: the runtime's counts.
  static int32_t Device();
  /// Returns whether this thread's scope allows code that the program carries; nullopt if there is no scope, or the
  /// scope leaves it to the process.
  static std::optional<bool> EmbeddedCode();
  /// True if code that this thread's scope refuses fails where it is called.
  static bool RefusedCodeFailsLate();
  /// What this thread's scope binds to the name; null if there is none, or none of that name.
  static std::shared_ptr<Callback> Find(std::string_view name);
  /// What this thread's scope makes for a name that nothing has; null if there is none, or it makes nothing.
  static std::shared_ptr<Callback> MakeFallback(std::string_view name);
  /// True if this thread's scope has the name.
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
