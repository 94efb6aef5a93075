// SPDX-License-Identifier: Apache-2.0
//
// Names to callbacks. A program carries a name; the runtime looks it up when it loads the program.
//
// Two kinds of names share one table. A registered name ("scale") is the user's and holds its callback until it is
// unregistered. A bound name ("py:module.function") is made up for a function that a traced program uses and holds it
// weakly: whoever traced the program and every executable made from it hold it strongly.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/fork_mutex.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

inline constexpr std::string_view kBoundPrefix = "py:";
/// How bound names begin that are made of the content of native code, and therefore mean the same in every process.
inline constexpr std::string_view kNativePrefix = "native:";
/// How names begin that say all that there is to know of a print: sinks/value_print.h makes it.
inline constexpr std::string_view kPrintPrefix = "id_print:";

class CALLOUT_EXPORT Registry {
 public:
  /// The process's registry; never destroyed. Thread-safe.
  static Registry& Get();

  /// Holds `callback` under `name`. AlreadyExists if the name is taken and not `replace`. Programs that were loaded
  /// before keep what they were loaded with. Thread-safe. GIL not needed.
  Status Register(const std::string& name, std::shared_ptr<Callback> callback, bool replace);

  /// NotFound if nobody registered `name`. Thread-safe.
  Status Unregister(const std::string& name);

  /// Returns the name under which `callback` can be found while it lives: kBoundPrefix + `base`, with "#1", "#2", ...
  /// where another bound callback has it. The same sequence of binds and unbinds gives the same names in every process,
  /// so that the persistent compilation cache hits. Thread-safe.
  std::string Bind(std::string_view base, const std::shared_ptr<Callback>& callback);

  /// Undoes one Bind: nobody will look `callback` up by `name` any more, and the name is free. The callback may live on
  /// in executables, which die when XLA's threads are done with them: a name that waited for that would be a matter of
  /// luck. Thread-safe.
  void Unbind(const std::string& name, const std::weak_ptr<Callback>& callback);

  /// Looks into this thread's BindingScope first, and last at the kinds of callbacks that programs may have made
  /// (callbacks/callback.h) and at the scope's fallback. NotFound with the registered names, if `name` is nowhere or
  /// its callback is gone; also with the names that are `needed`, one a line, by the program that asks, where it says
  /// so. Thread-safe. GIL not needed.
  Result<std::shared_ptr<Callback>> Find(std::string_view name, std::string_view needed = {}) const;

  /// The registered names, sorted. Thread-safe.
  std::vector<std::string> RegisteredNames() const;

 private:
  struct Entry {
    std::weak_ptr<Callback> callback;
    std::shared_ptr<Callback> held;  // null for bound names
    int bindings = 0;                // 0 for registered names
  };

  void Sweep() CALLOUT_REQUIRES(mutex_);
  bool IsBound(std::string_view name) const;
  std::string DescribeUnbound(std::string_view name, std::string_view needed) const;

  mutable ForkMutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ CALLOUT_GUARDED_BY(mutex_);
  size_t sweep_at_ CALLOUT_GUARDED_BY(mutex_) = 64;
};

}  // namespace callout::internal
