// SPDX-License-Identifier: Apache-2.0
//
// The table from names to callbacks. A program carries a name; the runtime looks the name up when it loads the program,
// and a registered name again when the program runs.
//
// Two kinds of names share one table. A registered name ("scale") is the user's, and holds its callback until it is
// unregistered. A bound name ("py:module.function") is generated for a function that a traced program uses, and refers
// to the callback weakly: the owner of the trace and every executable made from it hold the callback strongly.
#pragma once

#include <atomic>
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
/// The prefix of bound names that are made of the content of native code, and therefore mean the same in every process.
inline constexpr std::string_view kNativePrefix = "native:";
/// The prefix of names that fully describe a print: sinks/value_print.h makes the callback from the name.
inline constexpr std::string_view kPrintPrefix = "id_print:";

/// A registered name as programs hold it: each run asks the name for its current callback.
class CALLOUT_EXPORT RegisteredName {
 public:
  RegisteredName() = default;
  ~RegisteredName();
  RegisteredName(const RegisteredName&) = delete;
  RegisteredName& operator=(const RegisteredName&) = delete;

  /// Returns the callback that is registered now, or that was registered last. Thread-safe, without a lock.
  std::shared_ptr<Callback> callback() const;
  /// Returns whether the name stands for `other`, which is alive, by one atomic load. Thread-safe.
  bool IsOf(const Callback& other) const { return now_.load(std::memory_order_acquire) == &other; }

 private:
  friend class Registry;
  using Holder = std::shared_ptr<Callback>;
  /// Sets the callback. One thread at a time. Returns the holder of the previous callback, or null. The caller passes
  /// the holder to Forget, outside of locks.
  const Holder* Set(std::shared_ptr<Callback> callback);
  /// Destroys a holder that Set returned. Blocks until no thread copies it any more.
  static void Forget(const Holder* old);

  std::atomic<const Callback*> now_{nullptr};
  std::atomic<const Holder*> holder_{nullptr};
};

/// The callback that a name is bound to.
struct BoundCallback {
  std::shared_ptr<Callback> callback;
  std::shared_ptr<const RegisteredName> name;  ///< Null for a callback that nobody registered, which never changes.
};

class CALLOUT_EXPORT Registry {
 public:
  /// Returns the process's registry, which is never destroyed. Thread-safe.
  static Registry& Get();

  /// Binds `name` to `callback`, and holds it. AlreadyExists if the name is taken and not `replace`. Loaded programs
  /// use the new callback from their next use of the name on. Thread-safe. GIL not needed.
  Status Register(const std::string& name, std::shared_ptr<Callback> callback, bool replace);

  /// Unbinds `name`. NotFound if nobody registered it. Loaded programs keep their callback. Thread-safe.
  Status Unregister(const std::string& name);

  /// Returns the name under which `callback` can be found while it lives: kBoundPrefix + `base`, with "#1", "#2", ...
  /// where another bound callback has the name. The same sequence of binds and unbinds gives the same names in every
  /// process, so that the persistent compilation cache hits. Thread-safe.
  std::string Bind(std::string_view base, const std::shared_ptr<Callback>& callback);

  /// Undoes one Bind: nobody will look up `callback` by `name` any more, and the name is free. The name does not wait
  /// until the callback dies. Executables may keep the callback until XLA's threads are done with them, so a name that
  /// waited would depend on timing. Thread-safe.
  void Unbind(const std::string& name, const std::weak_ptr<Callback>& callback);

  /// Finds the callback of a name: first in this thread's BindingScope, then in this table, then among the kinds that
  /// programs may use (callbacks/callback.h), last by the scope's fallback. NotFound with the registered names, if
  /// there is no such name or its callback is gone. The message also lists the names in `needed`, one a line, which are
  /// all names that the program needs. Thread-safe. GIL not needed.
  Result<std::shared_ptr<Callback>> Find(std::string_view name, std::string_view needed = {}) const;
  /// Finds the callback like Find, and the RegisteredName if somebody registered it. Thread-safe. GIL not needed.
  Result<BoundCallback> FindBound(std::string_view name, std::string_view needed = {}) const;

  /// Returns the registered names, sorted. Thread-safe.
  std::vector<std::string> RegisteredNames() const;

 private:
  struct Entry {
    std::weak_ptr<Callback> callback;      // the callback of a bound name
    std::shared_ptr<RegisteredName> held;  // null for bound names
    std::weak_ptr<RegisteredName> name;    // outlives an unregistration in programs that hold it
    int bindings = 0;                      // 0 for registered names

    bool IsUnused() const { return held == nullptr && callback.expired() && name.expired(); }
  };

  void Sweep() CALLOUT_REQUIRES(mutex_);
  bool IsBound(std::string_view name) const;
  std::string DescribeUnbound(std::string_view name, std::string_view needed) const;

  mutable ForkMutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ CALLOUT_GUARDED_BY(mutex_);
  size_t sweep_at_ CALLOUT_GUARDED_BY(mutex_) = 64;
};

}  // namespace callout::internal
